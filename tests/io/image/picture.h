// Pictures to encode, and what every decoder must bear.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "io/image.h"
#include "support/error_of.h"

namespace tessera::test {

// A soft gradient, so that lossy formats keep it nearly unchanged.
inline Tensor gradient(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Tensor picture(DType::u8, {height, width, channels});
  std::uint8_t* to = picture.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < picture.elements(); ++i) {
    to[i] =
        static_cast<std::uint8_t>(40 + 3 * (i / channels % width) + 2 * (i / channels / width) + 20 * (i % channels));
  }
  return picture;
}

inline std::vector<std::byte> bytes_of(const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + size};
}
inline std::vector<std::byte> bytes_of(std::string_view text) {
  return bytes_of(text.data(), text.size());
}

inline std::vector<int> pixels_of(std::span<const std::byte> bytes, const io::ImageOptions& options = {}) {
  const Tensor picture = io::read_image_bytes(bytes, options);
  return {picture.data<std::uint8_t>(), picture.data<std::uint8_t>() + picture.elements()};
}

inline std::string read_error(std::span<const std::byte> bytes, const io::ImageOptions& options = {}) {
  return error_of([&] { io::read_image_bytes(bytes, options); });
}

inline int largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  int largest = 0;
  for (std::int64_t i = 0; i < std::min(a.elements(), b.elements()); ++i)
    largest = std::max(largest, std::abs(a.data<std::uint8_t>()[i] - b.data<std::uint8_t>()[i]));
  return largest;
}

// A file that is cut short is an error wherever `ending` bytes or more are missing.
inline void expect_truncation_is_an_error(const std::vector<std::byte>& whole, std::size_t ending,
                                          std::size_t step = 1) {
  for (std::size_t size = 0; size + ending <= whole.size(); size += step)
    EXPECT_NE(read_error(std::span(whole).first(size)), "") << size << " of " << whole.size();
}

// Damage of one byte gives a picture or an Error, nothing else.
inline void expect_damage_is_harmless(const std::vector<std::byte>& whole) {
  for (const int pattern : {0xA5, 0xFF, 0x01}) {
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= static_cast<std::byte>(pattern);
      read_error(damaged, {.max_pixels = 1 << 16});
    }
  }
}

}  // namespace tessera::test
