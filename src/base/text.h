// Prepares text from files for messages.
#pragma once

#include <string>
#include <string_view>

namespace tessera::base {

// A name as messages show it: if it is longer than 100 bytes, only its two ends, cut between characters.
std::string shown(std::string_view name);
// As shown(), with a limit of `most_bytes` instead of 100.
std::string shortened(std::string_view text, std::size_t most_bytes);

// The text with control characters (among them terminal escapes), marks that change the text's direction, and invalid
// UTF-8 replaced by escapes such as \x1B and \u202E, so that it is harmless on a terminal and takes one line.
std::string printable(std::string_view text);

}  // namespace tessera::base
