// Pictures as tensors: BMP, JPEG, JPEG 2000, PNG, PNM (P1 to P6), TIFF and WebP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "tessera/tensor.h"

namespace tessera::io {

struct ImageOptions {
  // Channels of the result: 0 as in the file (1 grey, 3 RGB, 4 RGBA), or 1, 3, 4. Alpha is dropped, not blended; grey
  // is luma of ITU-R BT.601; an added alpha is 255.
  int channels = 0;
  // Pictures with more pixels are refused before memory is asked for.
  std::int64_t max_pixels = std::int64_t{1} << 26;
};

// u8 [height, width, channels] of the first picture of the file, in the file's own orientation (EXIF is ignored). Other
// depths are scaled to 8 bits, palettes expanded. Throws Error: not_found or io for the file, invalid_argument for a
// malformed or truncated picture, unsupported for another format, a CMYK JPEG or an animation, over_budget beyond
// max_pixels (counted in samples, not pixels, for JPEG 2000).
Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {});
Tensor read_image_bytes(std::span<const std::byte> bytes, const ImageOptions& options = {});

}  // namespace tessera::io
