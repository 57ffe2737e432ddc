// tessera::ScatterRows, the transpose of Gather and so its gradient: adds rows at the given places of a tensor of
// zeros.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef scatter_rows_op;

// Rows as [outer, count, inner] and the result as [outer, size, inner].
struct ScatterRowsShape {
  std::int64_t outer = 1, count = 1, inner = 1, size = 0;
};
// The sizes for operands of these shapes. Throws Error(invalid_model) where the axis is out of range, Error(failed)
// where the size is negative.
ScatterRowsShape scatter_rows_shape(const AttributeReader& reader, const Shape& rows, const Shape& indices,
                                    std::int64_t size);
// The result's shape.
Shape scatter_rows_result(const AttributeReader& reader, const Shape& rows, const Shape& indices, std::int64_t size);

}  // namespace tessera::ops
