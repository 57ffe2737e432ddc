#include <png.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/image/decoders.h"
#include "io/image/orientation.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostBytesAPixel = 8;

// The file without its chunk gAMA, or nothing where it has none before the image's data, or one that changes nothing:
// the library would convert the values to sRGB, which no other reader that networks are trained with does.
std::vector<std::byte> without_gamma(Bytes bytes) {
  constexpr std::uint32_t kOfSrgb = 45455;
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return value;
  };
  const auto is = [&](std::size_t at, const char* kind) { return std::memcmp(bytes.data() + at + 4, kind, 4) == 0; };
  for (std::size_t at = 8; bytes.size() >= 16 && at <= bytes.size() - 16;) {
    if (is(at, "IDAT")) break;
    const std::size_t whole = 12 + std::size_t{number(at)};
    if (is(at, "gAMA") && whole == 16) {
      if (number(at + 8) == kOfSrgb) break;
      std::vector<std::byte> rest(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
      rest.insert(rest.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + whole), bytes.end());
      return rest;
    }
    at += whole;
  }
  return {};
}

}  // namespace

// Uses libpng's simplified interface: it keeps its long jumps to itself and reports errors as values.
Tensor read_png(Bytes file, const ImageOptions& options) {
  const std::vector<std::byte> changed = without_gamma(file);
  const Bytes bytes = changed.empty() ? file : Bytes(changed);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> guard(&image, &png_image_free);
  const auto check = [&](int result) {
    require(result != 0, ErrorKind::invalid_argument, "cannot read PNG: {}", image.message);
  };
  check(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  check_pixels(image.width, image.height, options, kMostBytesAPixel);
  // Deflate packs at most 1032 : 1, and a pixel takes at least one bit.
  require(std::int64_t{image.width} * image.height / 8 / 1032 <= static_cast<std::int64_t>(bytes.size()),
          ErrorKind::invalid_argument, "cannot read PNG: {} bytes cannot hold {} x {} pixels", bytes.size(),
          image.width, image.height);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const bool alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  const bool color = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = alpha ? PNG_FORMAT_RGBA : color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Tensor pixels(DType::u8, {image.height, image.width, alpha ? 4 : color ? 3 : 1});
  check(png_image_finish_read(&image, nullptr, pixels.mutable_raw(), 0, nullptr));
  return oriented(std::move(pixels), png_orientation(bytes));
}

}  // namespace tessera::io
