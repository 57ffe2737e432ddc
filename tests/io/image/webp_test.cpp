#include <gmock/gmock.h>
#include <webp/encode.h>

#include "io/image/picture.h"

namespace tessera::test::webp_test {
namespace {

using testing::HasSubstr;

std::vector<std::byte> webp_of(const Tensor& picture, bool lossy = false) {
  const int height = static_cast<int>(picture.shape()[0]), width = static_cast<int>(picture.shape()[1]),
            channels = static_cast<int>(picture.shape()[2]);
  const std::uint8_t* pixels = picture.data<std::uint8_t>();
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
  if (lossy) size = WebPEncodeRGB(pixels, width, height, width * channels, 90, &data);
  else if (channels == 3) size = WebPEncodeLosslessRGB(pixels, width, height, width * channels, &data);
  else size = WebPEncodeLosslessRGBA(pixels, width, height, width * channels, &data);
  std::vector<std::byte> bytes = bytes_of(data, size);
  WebPFree(data);
  return bytes;
}

TEST(WebP, ReadsLosslessExactly) {
  for (std::int64_t channels : {3, 4}) {
    const Tensor picture = gradient(9, 13, channels);
    EXPECT_TRUE(identical(io::read_image_bytes(webp_of(picture)), picture)) << channels;
  }
}

TEST(WebP, ReadsLossyClosely) {
  const Tensor picture = gradient(17, 23, 3);
  EXPECT_LE(largest_difference(io::read_image_bytes(webp_of(picture, true)), picture), 8);
}

TEST(WebP, TruncatedAndLyingFilesAreErrors) {
  for (const bool lossy : {false, true}) expect_truncation_is_an_error(webp_of(gradient(20, 20, 3), lossy), 4);
  EXPECT_THAT(read_error(webp_of(gradient(20, 20, 3)), {.max_pixels = 399}), HasSubstr("more than the limit of 399"));
}

TEST(WebP, DamageIsHarmless) {
  for (const bool lossy : {false, true}) expect_damage_is_harmless(webp_of(gradient(16, 16, 3), lossy));
  expect_damage_is_harmless(webp_of(gradient(8, 8, 4)));
}

}  // namespace
}  // namespace tessera::test::webp_test
