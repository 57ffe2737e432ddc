// The distance of two words, for suggestions where a name is not known.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::base {

// The fewest insertions, deletions, replacements and swaps of neighbouring characters that turn one word into the other
// (optimal string alignment distance). Takes time and memory in proportion to the product of the lengths.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace tessera::base
