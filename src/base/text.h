// Text that comes from files, as people may see it.
#pragma once

#include <string>
#include <string_view>

namespace tessera::base {

// A name as messages show it: of one longer than 100 bytes the two ends, cut between characters.
std::string shown(std::string_view name);
// The same with another length.
std::string shortened(std::string_view text, std::size_t most_bytes);

// With control characters (terminal escapes among them), marks that turn the direction of text, and bytes that are no
// UTF-8 written as \x1B and \u202E; what is left is harmless on a terminal and in one line.
std::string printable(std::string_view text);

}  // namespace tessera::base
