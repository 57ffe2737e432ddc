// ai.onnx.ml: LabelEncoder, ArrayFeatureExtractor, Binarizer.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef label_encoder;
extern const OpDef array_feature_extractor;
extern const OpDef binarizer;

// LabelEncoder's table: 1-D tensors of equal length, and the one-element tensor for keys not found.
struct LabelTable {
  Tensor keys, values, fallback;
};
// From whichever of the keys_*, values_* and default_* attributes are given; throws Error(invalid_model) when they are
// not one pair of equal length.
LabelTable label_table(const AttributeReader& reader);

}  // namespace tessera::ops
