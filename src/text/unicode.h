// Characters (Unicode scalar values) and their properties; the tables are utf8proc's.
#pragma once

#include <string>
#include <string_view>

namespace tessera::text {

// The characters of a text. Bytes that are no UTF-8 count as U+FFFD, one for each longest beginning of a character
// (Unicode Standard, "U+FFFD Substitution of Maximal Subparts").
std::u32string decode_utf8(std::string_view bytes);
// The number of bytes at the end that begin a character which further bytes can complete.
std::size_t incomplete_bytes(std::string_view bytes);
std::string encode_utf8(std::u32string_view characters);
void append_utf8(std::string& out, char32_t character);

bool is_white_space(char32_t character);      // property White_Space
bool is_punctuation(char32_t character);      // categories P*, and what ASCII calls punctuation
bool is_letter(char32_t character);           // categories L*
bool is_number(char32_t character);           // categories N*
bool is_control(char32_t character);          // categories Cc, Cf and Co, but for tab, newline and carriage return
bool is_nonspacing_mark(char32_t character);  // category Mn
bool is_mark(char32_t character);             // categories M*
bool is_printable(char32_t character);        // Python's: all but categories C* and Z*, and the space
bool is_cjk(char32_t character);              // the blocks of ideographs that BERT's tokenizer separates

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// Normal forms of Unicode Standard Annex 15.
std::u32string normalise(std::u32string_view text, NormalForm form);
// Full case mapping of a character to lower case.
std::u32string lower_case(std::u32string_view text);
// Upper case of each character, and "SS" for "ß".
std::u32string upper_case(std::u32string_view text);

}  // namespace tessera::text
