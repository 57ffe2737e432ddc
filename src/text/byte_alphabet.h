// The printable characters that stand for the 256 bytes in the vocabularies of byte-level tokenizers (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019): bytes that are printable in Latin-1 stand for
// themselves, the others for U+0100 onwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::text {

std::u32string as_byte_characters(std::string_view bytes);
// The byte that a character stands for, or none.
std::optional<char> byte_of_character(char32_t character);
// The bytes that a token's characters stand for. A token with a character that stands for none is an added one, and
// stands for itself.
std::string bytes_of_characters(std::string_view token);

}  // namespace tessera::text
