#include <gmock/gmock.h>

#include <array>

#include "io/image/picture.h"

namespace tessera::test::gif_test {
namespace {

using testing::HasSubstr;

constexpr std::string_view kTable("\x0A\x14\x1E\x28\x32\x3C\x46\x50\x5A\xC8\xD2\xDC", 12);  // four colours

std::string short_number(int value) {
  return {static_cast<char>(value & 255), static_cast<char>(value >> 8)};
}

// Indices below 4 as codes of three bits; a clear code before each keeps the codes from growing.
std::string coded(const std::vector<int>& indices) {
  std::string bytes;
  unsigned bits = 0, count = 0;
  const auto put = [&](unsigned code) {
    bits |= code << count;
    for (count += 3; count >= 8; count -= 8, bits >>= 8) bytes += static_cast<char>(bits & 255);
  };
  for (const int index : indices) put(4), put(static_cast<unsigned>(index));
  put(5);
  bytes += static_cast<char>(bits);
  std::string blocks("\x02", 1);
  for (std::size_t at = 0; at < bytes.size(); at += 255) {
    const std::string block = bytes.substr(at, 255);
    blocks += static_cast<char>(block.size()) + block;
  }
  return blocks + '\0';
}

struct Frame {
  int left = 0, top = 0, width = 2, height = 2;
  bool is_interlaced = false;
  std::vector<int> indices{0, 1, 2, 3};
};

std::string gif_of(int width, int height, const Frame& frame, int transparent = -1) {
  std::string file = "GIF89a" + short_number(width) + short_number(height) + std::string("\x81\x01\0", 3);
  file += kTable;
  if (transparent >= 0) file += std::string("\x21\xF9\x04\x01\0\0", 6) + static_cast<char>(transparent) + '\0';
  file += std::string("\x21\xFE\x02hi\0", 6);  // a comment
  file += ',' + short_number(frame.left) + short_number(frame.top) + short_number(frame.width) +
          short_number(frame.height) + (frame.is_interlaced ? '\x40' : '\0');
  return file + coded(frame.indices) + ';';
}

std::vector<int> pixels_of(const std::string& file) {
  return test::pixels_of(bytes_of(file));
}

TEST(Gif, ReadsTheFirstImage) {
  EXPECT_EQ(pixels_of(gif_of(2, 2, {})), (std::vector<int>{10, 20, 30, 40, 50, 60, 70, 80, 90, 200, 210, 220}));
  EXPECT_EQ(pixels_of(gif_of(2, 2, {}, 1)),
            (std::vector<int>{10, 20, 30, 255, 40, 50, 60, 0, 70, 80, 90, 255, 200, 210, 220, 255}));
}

TEST(Gif, PutsAnImageOnItsCanvas) {
  const Frame pixel{.left = 1, .top = 0, .width = 1, .height = 1, .indices = {3}};
  EXPECT_EQ(pixels_of(gif_of(2, 1, pixel)), (std::vector<int>{10, 20, 30, 200, 210, 220}));
  EXPECT_EQ(pixels_of(gif_of(2, 1, pixel, 2)), (std::vector<int>{70, 80, 90, 0, 200, 210, 220, 255}));
  const Frame outside{.left = 2, .top = 0, .width = 1, .height = 1, .indices = {3}};
  EXPECT_EQ(io::read_image_bytes(bytes_of(gif_of(2, 1, outside))).shape(), (Shape{1, 3, 3}));
}

TEST(Gif, ReadsInterlacedRows) {
  const Frame frame{.width = 1, .height = 9, .is_interlaced = true, .indices = {0, 1, 2, 3, 0, 1, 2, 3, 0}};
  const Tensor picture = io::read_image_bytes(bytes_of(gif_of(1, 9, frame)), {.channels = 1});
  const auto grey = [](int index) { return std::array{18, 48, 78, 208}[static_cast<std::size_t>(index)]; };
  const std::vector<int> order{0, 8, 4, 2, 6, 1, 3, 5, 7};
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_NEAR(picture.data<std::uint8_t>()[order[i]], grey(frame.indices[i]), 1) << "row " << order[i];
}

TEST(Gif, MalformedFilesAreErrors) {
  const std::string whole = gif_of(4, 4, {.width = 4, .height = 4, .indices = std::vector<int>(16, 1)});
  expect_truncation_is_an_error(bytes_of(whole), 4);
  expect_damage_is_harmless(bytes_of(whole));
  expect_damage_is_harmless(bytes_of(gif_of(2, 2, {}, 1)));
  EXPECT_THAT(read_error(bytes_of(gif_of(2, 2, {.indices = {0}}))), HasSubstr("cannot read GIF"));
  const std::string empty = whole.substr(0, 25) + ';';
  EXPECT_THAT(read_error(bytes_of(empty)), HasSubstr("holds no image"));
}

TEST(Gif, LimitsHoldBeforeMemoryIsTaken) {
  EXPECT_THAT(read_error(bytes_of(gif_of(65535, 65535, {}))),
              HasSubstr("65535 x 65535 pixels, more than the limit of 67108864 pixels"));
  EXPECT_THAT(read_error(bytes_of(gif_of(2, 2, {})), {.max_pixels = 3}), HasSubstr("more than the limit of 3"));
  std::int64_t told = 0;
  const auto reserve = [&](std::int64_t bytes) { told += bytes; };
  io::read_image_bytes(bytes_of(gif_of(2, 2, {})), {.reserve = reserve});
  EXPECT_EQ(told, 2 * 2 * 8);
}

}  // namespace
}  // namespace tessera::test::gif_test
