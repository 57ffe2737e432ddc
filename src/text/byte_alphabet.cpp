#include "text/byte_alphabet.h"

#include <array>
#include <unordered_map>

#include "text/unicode.h"

namespace tessera::text {
namespace {

bool is_printable_latin(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) alphabet[byte] = is_printable_latin(byte) ? byte : next++;
  return alphabet;
}

const std::array<char32_t, 256>& alphabet() {
  static const std::array<char32_t, 256> made = make_alphabet();
  return made;
}

}  // namespace

std::u32string as_byte_characters(std::string_view bytes) {
  std::u32string result;
  result.reserve(bytes.size());
  for (const char byte : bytes) result.push_back(alphabet()[static_cast<unsigned char>(byte)]);
  return result;
}

std::optional<char> byte_of_character(char32_t character) {
  static const std::unordered_map<char32_t, char> bytes = [] {
    std::unordered_map<char32_t, char> made;
    for (unsigned byte = 0; byte < 256; ++byte) made[alphabet()[byte]] = static_cast<char>(byte);
    return made;
  }();
  const auto found = bytes.find(character);
  return found == bytes.end() ? std::nullopt : std::optional(found->second);
}

std::string bytes_of_characters(std::string_view token) {
  std::string bytes;
  for (const char32_t character : decode_utf8(token)) {
    const std::optional<char> byte = byte_of_character(character);
    if (!byte) return std::string(token);
    bytes.push_back(*byte);
  }
  return bytes;
}

}  // namespace tessera::text
