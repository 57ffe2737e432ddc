#include "io/npy_strings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMaxCellBytes = std::int64_t{1} << 30;

bool is_character(std::uint32_t code) {
  return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

void append_utf8(std::string& text, std::uint32_t code) {
  require(is_character(code), ErrorKind::invalid_argument,
          "a string of the .npy array holds {:#x}, which is no Unicode character", code);
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Decodes the character at `at` and moves past it; longer forms than needed and surrogates are no UTF-8 (RFC 3629).
std::uint32_t next_character(const std::string& text, std::size_t& at) {
  static constexpr std::uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  const std::uint8_t lead = static_cast<std::uint8_t>(text[at]);
  const std::size_t more = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  bool valid = (lead < 0x80 || (lead >= 0xC2 && lead < 0xF5)) && text.size() - at > more;
  std::uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
  for (std::size_t i = 1; valid && i <= more; ++i) {
    const std::uint8_t next = static_cast<std::uint8_t>(text[at + i]);
    valid = (next & 0xC0) == 0x80;
    code = code << 6 | (next & 0x3Fu);
  }
  require(valid && code >= smallest[more] && is_character(code), ErrorKind::invalid_argument,
          "a string that is not UTF-8 cannot be written as .npy");
  at += more + 1;
  return code;
}

}  // namespace

Tensor strings_from_npy(const std::byte* bytes, const Shape& shape, std::size_t item_bytes, std::size_t unit) {
  Tensor result(DType::string, shape);
  for (std::string& text : result.mutable_values<std::string>()) {
    std::size_t length = item_bytes;
    const auto is_nul = [](std::byte byte) { return byte == std::byte{0}; };
    while (length > 0 && std::all_of(bytes + length - unit, bytes + length, is_nul)) length -= unit;
    if (unit == 1) {
      text.assign(reinterpret_cast<const char*>(bytes), length);
    } else {
      for (std::size_t at = 0; at < length; at += unit) {
        std::uint32_t code = 0;
        std::memcpy(&code, bytes + at, unit);
        append_utf8(text, code);
      }
    }
    bytes += item_bytes;
  }
  return result;
}

Tensor to_code_points(const Tensor& strings) {
  std::vector<std::vector<std::uint32_t>> decoded;
  std::size_t longest = 1;
  for (const std::string& text : strings.values<std::string>()) {
    std::vector<std::uint32_t>& characters = decoded.emplace_back();
    for (std::size_t at = 0; at < text.size();) characters.push_back(next_character(text, at));
    longest = std::max(longest, characters.size());
  }
  const Shape shape = {static_cast<std::int64_t>(decoded.size()), static_cast<std::int64_t>(longest)};
  require(byte_count(DType::u32, shape) <= kMaxCellBytes, ErrorKind::over_budget,
          "strings padded to the longest ({} characters) would take {} bytes as .npy", longest,
          byte_count(DType::u32, shape));
  Tensor cells(DType::u32, shape);
  std::uint32_t* to = cells.mutable_data<std::uint32_t>();
  std::fill(to, to + cells.elements(), 0u);
  for (std::size_t i = 0; i < decoded.size(); ++i) std::ranges::copy(decoded[i], to + i * longest);
  return cells;
}

}  // namespace tessera::io
