// ImageDecoder: decodes the bytes of an image file to pixels.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef image_decoder;

}  // namespace tessera::ops
