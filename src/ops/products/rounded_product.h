// Layers whose products take bfloat16 numbers, because the user asked for that precision: attributes of the fused
// layers, and what they mean.
#pragma once

#include "ops/core/builder.h"

namespace tessera::ops {

// "precision" = "bf16": data and weights are rounded to bfloat16 before they are multiplied; sums and bias stay as they
// are. Data and addend may come rounded already. "output_dtype" (a DType): the result is rounded to that type. Without
// them everything has the type of the weights.
std::vector<AttributeSpec> rounding_attributes();

// The result's type. Checks the attributes, and that only rounded data and addend (inputs 0 and 3) have another type
// than the weights (input 1).
DType rounded_result_type(const InferContext& context);

// Data and weights (inputs 0 and 1) as the product takes them, and the addend (input 3), in the weights' type; and the
// result in the type that the node gives.
std::vector<ir::ValueId> rounded_operands(GraphBuilder& builder, const AttributeReader& reader,
                                          std::span<const ir::ValueId> inputs);
ir::ValueId rounded_result(GraphBuilder& builder, const AttributeReader& reader, ir::ValueId y);

}  // namespace tessera::ops
