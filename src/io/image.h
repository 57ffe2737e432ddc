// PNG and JPEG pictures as tensors.
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

// u8 [height, width, channels], in the file's own orientation (EXIF is ignored). 16-bit PNGs are reduced to 8 bits,
// palettes expanded. Throws Error: not_found or io for the file, invalid_argument for a malformed or truncated picture,
// unsupported for another format or a CMYK JPEG, over_budget beyond max_pixels.
Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {});
Tensor read_image_bytes(std::span<const std::byte> bytes, const ImageOptions& options = {});

}  // namespace tessera::io
