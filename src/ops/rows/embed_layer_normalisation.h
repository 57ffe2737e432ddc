// The first layer of BERT (arXiv:1810.04805) as com.microsoft fuses it: embeddings, their sum, its normalisation.
// Schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef embed_layer_normalization;
extern const OpDef q_embed_layer_normalization;

}  // namespace tessera::ops
