// TfIdfVectorizer: counts of known n-grams (with gaps), raw, as presence, or weighted.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef tf_idf_vectorizer;

}  // namespace tessera::ops
