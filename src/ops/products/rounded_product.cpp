#include "ops/products/rounded_product.h"

namespace tessera::ops {

using ir::ValueId;

std::vector<AttributeSpec> rounding_attributes() {
  return {{"precision", ir::AttributeKind::text}, {"output_dtype", ir::AttributeKind::integer}};
}

DType rounded_result_type(const InferContext& context) {
  const bool rounded = context.has_attribute("precision");
  context.check(!rounded || context.text("precision") == "bf16", "precision is '{}', expected bf16",
                rounded ? context.text("precision") : "");
  const DType x = context.dtype(0), w = context.dtype(1);
  const auto check_type = [&](std::string_view name, DType type) {
    context.check(type == w || (rounded && type == DType::bf16), "'{}' is {}, 'W' {}", name, name_of(type), name_of(w));
  };
  check_type("X", x);
  if (context.has_input(3)) check_type("Z", context.dtype(3));
  if (!context.has_attribute("output_dtype")) return w;
  const std::int64_t type = context.integer("output_dtype");
  context.check(type == static_cast<std::int64_t>(DType::bf16), "output_dtype is {}, expected that of bf16", type);
  return DType::bf16;
}

std::vector<ValueId> rounded_operands(GraphBuilder& builder, const AttributeReader& reader,
                                      std::span<const ValueId> inputs) {
  const DType type = builder.dtype(inputs[1]);
  std::vector<ValueId> operands{inputs.begin(), inputs.end()};
  if (!reader.has_attribute("precision")) return operands;
  for (std::size_t i = 0; i < 2; ++i) operands[i] = builder.cast(builder.cast(inputs[i], DType::bf16), type);
  if (inputs.size() > 3 && inputs[3].valid()) operands[3] = builder.cast(inputs[3], type);
  return operands;
}

ValueId rounded_result(GraphBuilder& builder, const AttributeReader& reader, ValueId y) {
  return reader.has_attribute("output_dtype") ? builder.cast(y, DType::bf16) : y;
}

}  // namespace tessera::ops
