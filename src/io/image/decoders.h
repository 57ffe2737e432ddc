// One decoder a picture format. Each takes a whole file whose signature it has, and returns u8 [height, width,
// channels] as it is to be seen, with the file's own channels (1 grey, 3 RGB, 4 RGBA). Headers are checked before
// memory is asked for. All throw Error: invalid_argument for a malformed or truncated picture, unsupported for a
// variant of the format, over_budget beyond options.max_pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/images.h"

namespace tessera::io {

using Bytes = std::span<const std::byte>;

// Throws unless both are positive and the picture is within the limit; then tells options.reserve of the memory that
// decoding takes at most: bytes a pixel for the result, its conversion and turning, and what the library holds
// meanwhile.
void check_pixels(std::int64_t width, std::int64_t height, const ImageOptions& options, std::int64_t bytes_a_pixel);

// A picture in any of the formats; see tessera::ImageDecoder.
Tensor decode_image(Bytes bytes, const ImageOptions& options);

Tensor read_bmp(Bytes bytes, const ImageOptions& options);
Tensor read_gif(Bytes bytes, const ImageOptions& options);
Tensor read_jpeg(Bytes bytes, const ImageOptions& options);
Tensor read_jpeg2000(Bytes bytes, const ImageOptions& options);
Tensor read_png(Bytes bytes, const ImageOptions& options);
Tensor read_pnm(Bytes bytes, const ImageOptions& options);
Tensor read_tiff(Bytes bytes, const ImageOptions& options);
Tensor read_webp(Bytes bytes, const ImageOptions& options);

}  // namespace tessera::io
