// Tokenizer of domain com.microsoft: texts into tokens, by regular expressions or by characters.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef tokenizer;

// Whether every character of a text is a token of the node.
bool makes_tokens_of_characters(const AttributeReader& reader);

}  // namespace tessera::ops
