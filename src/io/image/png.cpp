#include <png.h>

#include <memory>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {

// Uses libpng's simplified interface: it keeps its long jumps to itself and reports errors as values.
Tensor read_png(Bytes bytes, const ImageOptions& options) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> guard(&image, &png_image_free);
  const auto check = [&](int result) {
    require(result != 0, ErrorKind::invalid_argument, "cannot read PNG: {}", image.message);
  };
  check(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  check_pixels(image.width, image.height, options);
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
  return pixels;
}

}  // namespace tessera::io
