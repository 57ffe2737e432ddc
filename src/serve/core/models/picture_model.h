// A model that makes a network's input of an image file: decodes, resizes and normalises it.
#pragma once

#include <memory>
#include <string>

#include "serve/core/models/image_memory.h"
#include "serve/core/models/servable.h"
#include "tessera/share.h"

namespace tessera::serve {

// The name of the backend in config.pbtxt.
inline constexpr const char* kPictureBackend = "tessera_picture";

// Input `image`: UINT8 [bytes of an image file]. Outputs: `tensor` FP32 [1, channels, height, width] or, channels last,
// [1, height, width, channels]; `size` INT64 [2], height and width of the image. The parameters of the settings are
// `width`, `height` (required), `channels`, `layout` (NCHW or NHWC), `scale`, `fit`, `order`, `filling`, `most_pixels`.
// Throws Error(invalid_argument) for other values. `images` lives longer than the model.
std::shared_ptr<Servable> make_picture_model(Arbiter& arbiter, const std::string& version, ModelSettings settings,
                                             const ImageMemory& images);

}  // namespace tessera::serve
