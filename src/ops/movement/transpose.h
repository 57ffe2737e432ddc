// Transpose, DepthToSpace and SpaceToDepth: permutations of the elements along axes and blocks.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef transpose;
extern const OpDef depth_to_space;
extern const OpDef space_to_depth;

// Attribute "perm", or the reversed axes; throws Error(invalid_model) when it is no permutation of the axes.
std::vector<std::int64_t> permutation_of(const AttributeReader& reader, std::int64_t rank);

}  // namespace tessera::ops
