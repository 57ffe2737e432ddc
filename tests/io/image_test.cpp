#include "io/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <fstream>

#include "io/image/picture.h"
#include "support/temporary_folder.h"

namespace tessera::io::image_test {
namespace {

using test::error_of;
using test::gradient;
using test::largest_difference;
using test::read_error;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::byte> png_of(const Tensor& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(picture.shape()[0]);
  image.width = static_cast<png_uint_32>(picture.shape()[1]);
  image.format = picture.shape()[2] == 1 ? PNG_FORMAT_GRAY : picture.shape()[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&image, nullptr, &size, 0, picture.raw(), 0, nullptr));
  std::vector<std::byte> bytes(size);
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.raw(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

std::vector<std::byte> jpeg_of(const Tensor& picture, int flags = 0) {
  void* encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const bool grey = picture.shape()[2] == 1;
  EXPECT_EQ(tjCompress2(encoder, picture.data<std::uint8_t>(), static_cast<int>(picture.shape()[1]), 0,
                        static_cast<int>(picture.shape()[0]), grey ? TJPF_GRAY : TJPF_RGB, &data, &size,
                        grey ? TJSAMP_GRAY : TJSAMP_444, 95, flags),
            0);
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  tjFree(data);
  tjDestroy(encoder);
  return bytes;
}

// The big-endian width of a PNG stands at byte 16, after signature, length and "IHDR"; its checksum follows 13 bytes.
void set_png_size(std::vector<std::byte>& png, std::uint32_t width, std::uint32_t height) {
  for (int i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<std::byte>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<std::byte>(height >> (24 - 8 * i));
  }
  std::uint32_t crc = ~0u;
  for (int at = 12; at < 29; ++at) {
    crc ^= std::to_integer<std::uint32_t>(png[at]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(~crc >> (24 - 8 * i));
}

TEST(Image, ReadsPngExactly) {
  for (std::int64_t channels : {1, 3, 4}) {
    const Tensor picture = gradient(9, 13, channels);
    EXPECT_TRUE(identical(read_image_bytes(png_of(picture)), picture)) << channels;
  }
}

TEST(Image, ReadsJpegClosely) {
  for (std::int64_t channels : {1, 3}) {
    const Tensor picture = gradient(17, 23, channels);
    EXPECT_LE(largest_difference(read_image_bytes(jpeg_of(picture)), picture), 4) << channels;
    EXPECT_LE(largest_difference(read_image_bytes(jpeg_of(picture, TJFLAG_PROGRESSIVE)), picture), 4) << channels;
  }
}

TEST(Image, ReadsJpegOfPrintersInks) {
  // Orange: cyan lets all light through, magenta half of it, yellow none; black takes a fifth away from all.
  Tensor inks(DType::u8, {16, 24, 4});
  for (std::int64_t i = 0; i < 16 * 24; ++i) {
    const std::uint8_t inverted[] = {255, 128, 0, 204};
    std::copy_n(inverted, 4, inks.mutable_data<std::uint8_t>() + 4 * i);
  }
  void* encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, inks.data<std::uint8_t>(), 24, 0, 16, TJPF_CMYK, &data, &size, TJSAMP_444, 95, 0), 0);
  const Tensor read = read_image_bytes({reinterpret_cast<const std::byte*>(data), size}, {.channels = 3});
  tjFree(data);
  tjDestroy(encoder);
  ASSERT_EQ(read.shape(), (Shape{16, 24, 3}));
  const std::uint8_t expected[] = {204, 102, 0};
  for (std::int64_t i = 0; i < read.elements(); ++i)
    EXPECT_NEAR(read.data<std::uint8_t>()[i], expected[i % 3], 3) << "element " << i;
}

TEST(Image, ConvertsChannels) {
  const auto pixel = [](std::initializer_list<std::uint8_t> values, int channels) {
    const Tensor picture = Tensor::from<std::uint8_t>({1, 1, static_cast<std::int64_t>(values.size())}, values);
    const Tensor result = read_image_bytes(png_of(picture), {.channels = channels});
    return std::vector<int>(result.data<std::uint8_t>(), result.data<std::uint8_t>() + result.elements());
  };
  EXPECT_EQ(pixel({7}, 3), (std::vector<int>{7, 7, 7}));
  EXPECT_EQ(pixel({1, 2, 3, 128}, 3), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(pixel({1, 2, 3}, 4), (std::vector<int>{1, 2, 3, 255}));
  EXPECT_EQ(pixel({255, 0, 0}, 1), (std::vector<int>{76}));
  EXPECT_THAT(read_error(png_of(gradient(1, 1, 1)), {.channels = 2}), HasSubstr("1, 3 or 4 channels, not 2"));
}

TEST(Image, RefusesOtherFormatsAndMissingFiles) {
  EXPECT_THAT(read_error({}), HasSubstr("none of the picture formats that are read: BMP, GIF, JPEG,"));
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { read_image(folder / "none.png"); }), HasSubstr("none.png' does not exist"));
  std::ofstream(folder / "a.heic") << "ftyp";
  EXPECT_THAT(error_of([&] { read_image(folder / "a.heic"); }),
              AllOf(HasSubstr("none of the picture formats"), HasSubstr("the first bytes are 66 74 79 70"),
                    HasSubstr("(in file ")));
}

TEST(Image, TruncatedFilesAreErrors) {
  for (const std::vector<std::byte>& whole : {png_of(gradient(20, 20, 3)), jpeg_of(gradient(20, 20, 3))}) {
    for (std::size_t size = 0; size + 20 < whole.size(); size += 5) {
      EXPECT_NE(read_error(std::span(whole).first(size)), "") << size << " of " << whole.size();
    }
  }
}

TEST(Image, LyingHeadersAreErrors) {
  std::vector<std::byte> png = png_of(gradient(4, 4, 3));
  set_png_size(png, 4, 4);
  EXPECT_EQ(read_error(png), "");
  set_png_size(png, 8000, 8000);
  EXPECT_THAT(read_error(png), HasSubstr("bytes cannot hold 8000 x 8000 pixels"));
  set_png_size(png, 1000000, 1000000);
  EXPECT_THAT(read_error(png),
              HasSubstr("picture of 1000000 x 1000000 pixels, more than the limit of 67108864 pixels"));
  set_png_size(png, 0, 4);
  EXPECT_THAT(read_error(png), HasSubstr("cannot read PNG"));
  EXPECT_THAT(read_error(png_of(gradient(20, 20, 1)), {.max_pixels = 399}), HasSubstr("more than the limit of 399"));

  std::vector<std::byte> jpeg = jpeg_of(gradient(16, 16, 3));
  for (std::size_t at = 0; at + 9 < jpeg.size(); ++at) {
    if (jpeg[at] != std::byte{0xFF} || jpeg[at + 1] != std::byte{0xC0}) continue;
    jpeg[at + 5] = jpeg[at + 7] = std::byte{0x10};  // 4112 x 4112 pixels from the data of 16 x 16
  }
  EXPECT_THAT(read_error(jpeg), HasSubstr("cannot read JPEG"));
}

TEST(Image, DamageIsHarmless) {
  test::expect_damage_is_harmless(png_of(gradient(8, 8, 4)));
  test::expect_damage_is_harmless(jpeg_of(gradient(16, 16, 3)));
}

}  // namespace
}  // namespace tessera::io::image_test
