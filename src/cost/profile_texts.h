// The device profiles that are part of the program: src/cost/profiles/*.toml.
#pragma once

#include <span>

namespace tessera::cost {

// The text of every file, in the order of their names.
std::span<const char* const> profile_texts();

}  // namespace tessera::cost
