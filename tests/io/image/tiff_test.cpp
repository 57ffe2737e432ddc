#include <gmock/gmock.h>
#include <tiffio.h>

#include <fstream>
#include <iterator>

#include "io/image/picture.h"
#include "support/temporary_folder.h"

namespace tessera::test::tiff_test {
namespace {

using testing::HasSubstr;

struct Layout {
  int compression = COMPRESSION_NONE;
  int bits = 8;
  bool tiled = false;
  bool planar = false;
  const char* mode = "w";  // "wb": big-endian, "w8": BigTIFF
};

// 16-bit samples are the 8-bit ones times 257.
std::vector<std::uint8_t> row_of(const Tensor& picture, std::int64_t y, std::int64_t channel, const Layout& layout) {
  const std::int64_t width = picture.shape()[1], channels = picture.shape()[2];
  std::vector<std::uint8_t> row;
  for (std::int64_t x = 0; x < width; ++x) {
    for (std::int64_t c = 0; c < channels; ++c) {
      if (layout.planar && c != channel) continue;
      row.insert(row.end(), static_cast<std::size_t>(layout.bits / 8),
                 picture.data<std::uint8_t>()[(y * width + x) * channels + c]);
    }
  }
  return row;
}

std::vector<std::byte> tiff_of(const Tensor& picture, const Layout& layout = {}) {
  const TemporaryFolder folder;
  const std::string path = (folder / "a.tif").string();
  const std::int64_t height = picture.shape()[0], width = picture.shape()[1], channels = picture.shape()[2];
  TIFF* tiff = TIFFOpen(path.c_str(), layout.mode);
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<std::uint32_t>(width));
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<std::uint32_t>(height));
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, static_cast<int>(channels));
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, layout.bits);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, layout.compression);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, channels == 1 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, layout.planar ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (channels == 4) {
    const std::uint16_t kind = EXTRASAMPLE_UNASSALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &kind);
  }
  if (layout.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, 16);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
    std::vector<std::uint8_t> tile(static_cast<std::size_t>(TIFFTileSize(tiff)));
    const auto pixel = static_cast<std::size_t>(channels * layout.bits / 8);
    for (std::int64_t top = 0; top < height; top += 16) {
      for (std::int64_t left = 0; left < width; left += 16) {
        for (std::int64_t y = top; y < std::min(top + 16, height); ++y) {
          const std::vector<std::uint8_t> row = row_of(picture, y, 0, layout);
          const auto count = static_cast<std::size_t>(std::min<std::int64_t>(16, width - left)) * pixel;
          std::copy_n(row.begin() + left * static_cast<std::int64_t>(pixel), count,
                      tile.begin() + (y - top) * 16 * static_cast<std::int64_t>(pixel));
        }
        TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(top), 0, 0);
      }
    }
  } else {
    for (std::int64_t c = 0; c < (layout.planar ? channels : 1); ++c) {
      for (std::int64_t y = 0; y < height; ++y) {
        std::vector<std::uint8_t> row = row_of(picture, y, c, layout);
        TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), static_cast<std::uint16_t>(c));
      }
    }
  }
  TIFFClose(tiff);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return bytes_of(text);
}

TEST(Tiff, ReadsEveryLayoutExactly) {
  const Layout layouts[] = {{},
                            {.compression = COMPRESSION_LZW},
                            {.compression = COMPRESSION_ADOBE_DEFLATE, .tiled = true},
                            {.compression = COMPRESSION_PACKBITS, .planar = true},
                            {.bits = 16},
                            {.bits = 16, .mode = "wb"},
                            {.mode = "w8"}};
  for (const Layout& layout : layouts) {
    for (std::int64_t channels : {1, 3, 4}) {
      const Tensor picture = gradient(19, 21, channels);
      EXPECT_TRUE(identical(io::read_image_bytes(tiff_of(picture, layout)), picture))
          << channels << " channels, compression " << layout.compression << ", " << layout.bits << " bits, mode "
          << layout.mode;
    }
  }
}

TEST(Tiff, KeepsColorsUnderAlpha) {
  const Tensor pixel = Tensor::from<std::uint8_t>({1, 1, 4}, {200, 100, 50, 128});
  EXPECT_EQ(pixels_of(tiff_of(pixel)), (std::vector<int>{200, 100, 50, 128}));
  EXPECT_EQ(pixels_of(tiff_of(pixel), {.channels = 3}), (std::vector<int>{200, 100, 50}));
}

TEST(Tiff, RefusesWhatItCannotRead) {
  std::vector<std::byte> floats = tiff_of(gradient(4, 4, 1), {.bits = 32});
  EXPECT_THAT(read_error(floats),
              HasSubstr("TIFF of a kind that is not supported: Sorry, can not handle images with 32-bit samples"));
  EXPECT_THAT(read_error(tiff_of(gradient(20, 20, 3))), "");
  EXPECT_THAT(read_error(tiff_of(gradient(20, 20, 3)), {.max_pixels = 399}), HasSubstr("more than the limit of 399"));
}

TEST(Tiff, TruncatedFilesAreErrors) {
  testing::internal::CaptureStderr();
  // The directory is written last.
  expect_truncation_is_an_error(tiff_of(gradient(20, 20, 3)), 4, 7);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Tiff, DamageIsHarmless) {
  testing::internal::CaptureStderr();
  expect_damage_is_harmless(tiff_of(gradient(12, 12, 3), {.compression = COMPRESSION_LZW}));
  expect_damage_is_harmless(tiff_of(gradient(8, 8, 4), {.tiled = true}));
  expect_damage_is_harmless(tiff_of(gradient(8, 8, 3), {.compression = COMPRESSION_ADOBE_DEFLATE, .planar = true}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tessera::test::tiff_test
