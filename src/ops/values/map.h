// Between maps and tensors: ZipMap, DictVectorizer and CastMap of ai.onnx.ml.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef zip_map;
extern const OpDef dict_vectorizer;
extern const OpDef cast_map;

// The keys that a node's attributes list, as a 1-D i64 or string tensor without repetitions: classlabels_int64s or
// classlabels_strings of ZipMap, int64_vocabulary or string_vocabulary of DictVectorizer. Exactly one must be given.
Tensor key_list(const AttributeReader& reader);

}  // namespace tessera::ops
