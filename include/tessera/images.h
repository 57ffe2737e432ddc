// Images as tensors. Running a model needs no image libraries, unless the model has the operator ImageDecoder, whose
// decoders come from here: link tessera::images and call register_image_codecs() once, or register a decoder of your
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tessera/export.h"
#include "tessera/tensor.h"

namespace tessera {

struct ImageOptions {
  // Channels of the result: 0 as in the file (1 grey, 3 RGB, 4 RGBA), or 1, 3, 4. Alpha is dropped, not blended; grey
  // is luma of ITU-R BT.601; an added alpha is 255.
  int channels = 0;
  // Images with more pixels are refused before memory is asked for.
  std::int64_t max_pixels = std::int64_t{1} << 26;
  // If set, called after the header has been read and before memory is allocated, with the most bytes that decoding
  // takes besides the file, including the result. An exception that it throws ends the decoding.
  std::function<void(std::int64_t bytes)> reserve;
};

// Decodes a whole file: u8 [height, width, channels] of its first image, rotated and mirrored as the EXIF data of
// JPEG, PNG and WebP or the tag Orientation of TIFF say (malformed EXIF data is ignored). Other depths are scaled to 8
// bits, palettes expanded, gamma and colour profiles ignored. Must be thread-safe. Throws Error: invalid_argument for a
// malformed or truncated image, unsupported for another format or variant, over_budget beyond max_pixels.
using ImageDecoder = Tensor (*)(std::span<const std::byte> bytes, const ImageOptions& options);

// Registers the decoder for all sessions of the process; null removes it. Thread-safe. Without a decoder, decoding
// throws Error(unsupported) that says how to get one.
TESSERA_API void set_image_decoder(ImageDecoder decoder);

// In the library tessera::images. Hands in decoders of BMP, GIF (its first image), JPEG (CMYK becomes RGB), JPEG 2000,
// PNG, PNM (P1 to P6), TIFF and WebP. Animated WebP is unsupported; max_pixels counts samples, not pixels, for JPEG
// 2000. Thread-safe; calling it again does nothing.
TESSERA_API void register_image_codecs();

}  // namespace tessera
