// A model that makes a network's input of a picture file: decode, resize, normalise, as one graph.
#pragma once

#include "serve/core/model_settings.h"
#include "tessera/model.h"

namespace tessera::serve {

// The name of the backend in config.pbtxt.
inline constexpr const char* kPictureBackend = "tessera_picture";

// The settings with the limit of memory that models of pictures have, where none is given.
ModelSettings with_memory_limit(ModelSettings settings);

// The model of make_picture_graph with the options that the parameters name: `width`, `height` (required), `channels`,
// `layout` (NCHW or NHWC), `scale`, `fit`, `order`, `filling`. Throws Error(invalid_argument) for other values.
Model make_picture_model(const ModelSettings& settings);

}  // namespace tessera::serve
