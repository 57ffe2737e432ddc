// A model that makes a network's input of a picture file: decode, resize, normalise, as one graph.
#pragma once

#include "serve/core/model_settings.h"
#include "tessera/model.h"

namespace tessera::serve {

// The name of the backend in config.pbtxt.
inline constexpr const char* kPictureBackend = "tessera_picture";

// Input `image`: UINT8 [bytes of a picture file]. Output `tensor`: FP32 [1, channels, height, width], or with the
// parameter layout = "NHWC" [1, height, width, channels]. Parameters: `width`, `height` (required), `channels` (3, or 1
// for grey), `scale`: "unit" (0 to 1, the default), "none" (0 to 255), "symmetric" (-1 to 1), "imagenet" (0 to 1, less
// the mean of ImageNet's channels, divided by their deviation). The picture is stretched by linear interpolation that
// averages when it shrinks. Throws Error(invalid_argument) for other values.
Model make_picture_model(const ModelSettings& settings);

}  // namespace tessera::serve
