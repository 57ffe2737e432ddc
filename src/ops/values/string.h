// StringConcat, StringNormalizer, StringSplit, RegexFullMatch: operators on text, taken as UTF-8.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef string_concat;
extern const OpDef string_normalizer;
extern const OpDef string_split;
extern const OpDef regex_full_match;

}  // namespace tessera::ops
