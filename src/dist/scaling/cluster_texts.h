// The clusters that are part of the program: src/dist/scaling/clusters/*.toml.
#pragma once

#include <span>

namespace tessera::dist {

// The text of every file, in the order of their names.
std::span<const char* const> cluster_texts();

}  // namespace tessera::dist
