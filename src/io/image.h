// Pictures as tensors, by the decoder that the program handed in (tessera/images.h): the formats and their libraries
// are in a library of their own, image/.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "tessera/images.h"

namespace tessera::io {

using tessera::ImageOptions;

// The decoder that was handed in. Throws Error(unsupported) when there is none.
ImageDecoder image_decoder();

// u8 [height, width, channels]; see ImageDecoder. Throws Error as that and image_decoder do, and not_found or io for
// the file.
Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {});
Tensor read_image_bytes(std::span<const std::byte> bytes, const ImageOptions& options = {});

}  // namespace tessera::io
