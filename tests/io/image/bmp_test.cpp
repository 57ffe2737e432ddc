#include <gmock/gmock.h>

#include <bit>

#include "io/image/picture.h"

namespace tessera::test::bmp_test {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::string little(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255);
  return text;
}

struct Bitmap {
  int width = 0, height = 0, bits = 24;
  std::uint32_t compression = 0;
  std::string masks;    // after a header of 40 bytes
  std::string palette;  // blue, green, red, 0
  std::string pixels;   // rows padded to 4 bytes, the last one first
  std::uint32_t info_size = 40;

  std::vector<std::byte> file() const {
    std::string info = little(info_size, 4) + little(static_cast<std::uint32_t>(width), 4) +
                       little(static_cast<std::uint32_t>(height), 4) + little(1, 2) +
                       little(static_cast<std::uint32_t>(bits), 2) + little(compression, 4) + std::string(20, '\0') +
                       masks;
    if (info_size > 40) info.resize(info_size);
    const std::string front = info + palette;
    return bytes_of("BM" + little(0, 4) + little(0, 4) + little(static_cast<std::uint32_t>(14 + front.size()), 4) +
                    front + pixels);
  }
};

std::vector<int> pixels(const Bitmap& bitmap) {
  return pixels_of(bitmap.file());
}
std::string error(const Bitmap& bitmap) {
  return read_error(bitmap.file());
}

// Index i is the colour (10 i, 20 i, 30 i).
std::string palette_of(int count) {
  std::string palette;
  for (int i = 0; i < count; ++i)
    palette += {static_cast<char>(30 * i), static_cast<char>(20 * i), static_cast<char>(10 * i), '\0'};
  return palette;
}

std::vector<int> colors(std::initializer_list<int> indices) {
  std::vector<int> result;
  for (int i : indices) result.insert(result.end(), {10 * i, 20 * i, 30 * i});
  return result;
}

TEST(Bmp, ReadsTrueColorBottomUpAndTopDown) {
  const std::string rows = "\x03\x02\x01\x06\x05\x04\0\0"s + "\x09\x08\x07\x0C\x0B\x0A\0\0"s;
  EXPECT_EQ(pixels({.width = 2, .height = 2, .pixels = rows}),
            (std::vector<int>{7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels({.width = 2, .height = -2, .pixels = rows}),
            (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(pixels({.width = 1, .height = 1, .bits = 32, .pixels = "\x03\x02\x01\xFF"}), (std::vector<int>{1, 2, 3}));
}

TEST(Bmp, ReadsFieldsOfBits) {
  EXPECT_EQ(pixels({.width = 1, .height = 1, .bits = 16, .pixels = little(31 << 10 | 16 << 5 | 1, 4)}),
            (std::vector<int>{255, 132, 8}));
  const std::string masks565 = little(0xF800, 4) + little(0x7E0, 4) + little(0x1F, 4);
  EXPECT_EQ(
      pixels({.width = 1, .height = 1, .bits = 16, .compression = 3, .masks = masks565, .pixels = little(63 << 5, 4)}),
      (std::vector<int>{0, 255, 0}));
  const std::string masks_alpha = little(0xFF, 4) + little(0xFF00, 4) + little(0xFF0000, 4) + little(0xFF000000, 4);
  EXPECT_EQ(pixels({.width = 1,
                    .height = 1,
                    .bits = 32,
                    .compression = 3,
                    .masks = masks_alpha,
                    .pixels = "\x01\x02\x03\x04",
                    .info_size = 124}),
            (std::vector<int>{1, 2, 3, 4}));
  EXPECT_THAT(error({.width = 1,
                     .height = 1,
                     .bits = 32,
                     .compression = 3,
                     .masks = little(5, 4) + masks_alpha,
                     .pixels = "abcd"}),
              HasSubstr("channel mask 0x5"));
}

TEST(Bmp, ReadsPalettes) {
  EXPECT_EQ(pixels({.width = 3, .height = 1, .bits = 8, .palette = palette_of(8), .pixels = "\x01\x07\x02\0"s}),
            colors({1, 7, 2}));
  EXPECT_EQ(pixels({.width = 3, .height = 1, .bits = 4, .palette = palette_of(8), .pixels = "\x17\x20\0\0"s}),
            colors({1, 7, 2}));
  EXPECT_EQ(pixels({.width = 3, .height = 1, .bits = 1, .palette = palette_of(2), .pixels = "\xA0\0\0\0"s}),
            colors({1, 0, 1}));
  EXPECT_THAT(error({.width = 1, .height = 1, .bits = 8, .palette = palette_of(2), .pixels = "\x02\0\0\0"s}),
              HasSubstr("colour 2 of a palette of 2"));
  EXPECT_THAT(error({.width = 1, .height = 1, .bits = 8, .pixels = "\x02\0\0\0"s}),
              HasSubstr("a palette of 0 colours"));
}

TEST(Bmp, ReadsRunLengths) {
  // A run of 2, end of row, a move of one, three as they are, end.
  const std::string rle8 = "\x02\x01\x00\x00\x00\x02\x01\x00\x00\x03\x02\x03\x04\x00\x00\x01"s;
  EXPECT_EQ(pixels({.width = 4, .height = 2, .bits = 8, .compression = 1, .palette = palette_of(5), .pixels = rle8}),
            colors({0, 2, 3, 4, 1, 1, 0, 0}));
  const std::string rle4 = "\x03\x12\x00\x00\x00\x03\x34\x10\x00\x01"s;
  EXPECT_EQ(pixels({.width = 3, .height = 2, .bits = 4, .compression = 2, .palette = palette_of(5), .pixels = rle4}),
            colors({3, 4, 1, 1, 2, 1}));
  EXPECT_THAT(error({.width = 2,
                     .height = 1,
                     .bits = 8,
                     .compression = 1,
                     .palette = palette_of(5),
                     .pixels = "\x03\x01\x00\x01"s}),
              HasSubstr("a run beyond the picture"));
  EXPECT_THAT(
      error({.width = 2, .height = 1, .bits = 8, .compression = 1, .palette = palette_of(5), .pixels = "\x02\x01"s}),
      HasSubstr("truncated"));
}

TEST(Bmp, FaultsAreErrors) {
  EXPECT_THAT(error({.width = 0, .height = 1}), HasSubstr("picture of 0 x 1 pixels"));
  EXPECT_THAT(error({.width = 100000, .height = 100000}), HasSubstr("more than the limit of"));
  EXPECT_THAT(error({.width = 1000, .height = 1000, .pixels = "abc"}),
              HasSubstr("bytes cannot hold 1000 x 1000 pixels of 24 bits"));
  EXPECT_THAT(error({.width = 1, .height = 1, .bits = 7}), HasSubstr("7 bits a pixel"));
  EXPECT_THAT(error({.width = 1, .height = 1, .bits = 24, .compression = 1}), HasSubstr("compression 1 of 24 bits"));
  EXPECT_THAT(error({.width = 1, .height = 1, .bits = 24, .compression = 5}), HasSubstr("BMP with compression 5"));
  EXPECT_THAT(error({.width = 1, .height = 1, .info_size = 41}), HasSubstr("BMP with a header of 41 bytes"));
  expect_truncation_is_an_error(Bitmap{.width = 2, .height = 2, .pixels = std::string(16, 'a')}.file(),
                                3);  // the last row's padding may be missing
}

TEST(Bmp, DamageIsHarmless) {
  expect_damage_is_harmless(Bitmap{.width = 2, .height = 2, .pixels = std::string(16, 'a')}.file());
  const std::string rle8 = "\x02\x01\x00\x00\x00\x02\x01\x00\x00\x03\x02\x03\x04\x00\x00\x01"s;
  expect_damage_is_harmless(
      Bitmap{.width = 4, .height = 2, .bits = 8, .compression = 1, .palette = palette_of(5), .pixels = rle8}.file());
}

}  // namespace
}  // namespace tessera::test::bmp_test
