// Col2Im: sums the columns of sliding blocks back into an image.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef col2im;

// The sliding blocks of one node; all vectors have one entry a spatial axis.
struct Col2ImGeometry {
  std::vector<std::int64_t> image, block, dilations, pads_begin, pads_end, strides;
  std::vector<std::int64_t> positions;  // how many places the block takes along each axis
  std::int64_t channels = 0;
};
// `input` is [N, C * product(block), product(positions)]. Throws Error(invalid_model) where the parts do not fit.
Col2ImGeometry col2im_geometry(const AttributeReader& reader, const Shape& input, std::vector<std::int64_t> image,
                               std::vector<std::int64_t> block);

}  // namespace tessera::ops
