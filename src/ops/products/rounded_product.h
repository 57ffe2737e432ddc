// Layers whose products take bfloat16 numbers, because the user asked for that precision: the attributes of fused
// layers, and their meaning.
#pragma once

#include "ops/core/builder.h"

namespace tessera::ops {

// "precision" = "bf16": data and weights are rounded to bfloat16 before they are multiplied; sums and bias are not
// rounded. Data and addend may be rounded already. "output_dtype" (a DType): the result is rounded to that type.
// Without them everything has the type of the weights.
std::vector<AttributeSpec> rounding_attributes();

// The result's type. Throws Error(invalid_model) unless the attributes are valid and only rounded data and addend
// (inputs 0 and 3) have a type other than that of the weights (input 1).
DType rounded_result_type(const InferContext& context);

// Data and weights (inputs 0 and 1) rounded as the product takes them, and the addend (input 3), all in the weights'
// type; and the result in the type that the node returns.
std::vector<ir::ValueId> rounded_operands(GraphBuilder& builder, const AttributeReader& reader,
                                          std::span<const ir::ValueId> inputs);
ir::ValueId rounded_result(GraphBuilder& builder, const AttributeReader& reader, ir::ValueId y);

}  // namespace tessera::ops
