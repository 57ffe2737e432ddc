// Preparation of features, of ai.onnx.ml: Scaler, Normalizer, Imputer, OneHotEncoder, FeatureVectorizer,
// CategoryMapper.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef scaler;
extern const OpDef normalizer;
extern const OpDef imputer;
extern const OpDef one_hot_encoder;
extern const OpDef feature_vectorizer;
extern const OpDef category_mapper;

}  // namespace tessera::ops
