#include "ops/rows/skip_normalisation.h"

#include "ops/attention/attention_parts.h"
#include "ops/core/check_operand.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dims;
using ir::ValueId;

void infer_skip_normalisation(InferContext& context) {
  const bool simplified = context.op().name == "com.microsoft::SkipSimplifiedLayerNormalization";
  context.set_output(0, context.input(0));
  context.set_output(3, context.input(0));
  const Dims* x = context.dims(0);
  if (x == nullptr) {
    context.set_output_unknown_rank(1, DType::f32);
    context.set_output_unknown_rank(2, DType::f32);
    return;
  }
  context.check(!x->empty(), "'input' has rank 0, expected at least 1");
  if (const Dims* skip = context.dims(1)) {
    const Dims both = broadcast_dims(context, *x, *skip);
    bool fits = both.size() == x->size();
    for (std::size_t i = 0; fits && i < both.size(); ++i) fits = both[i].may_equal((*x)[i]);
    context.check(fits, "'skip' of shape {} does not broadcast to {}", text_of(*skip), text_of(*x));
  }
  for (std::size_t i = 2; i < (simplified ? 4 : 5); ++i) check_operand(context, i, {x->back()});
  Dims rows = *x;
  rows.back() = 1;
  context.set_output(1, DType::f32, rows);
  context.set_output(2, DType::f32, std::move(rows));
}

// The sum that is normalised.
ValueId summed(GraphBuilder& builder, std::span<const ValueId> inputs, std::size_t bias) {
  const ValueId sum = builder.add("Add", {inputs[0], inputs[1]});
  return add_optional(builder, sum, bias < inputs.size() ? inputs[bias] : ValueId{});
}

bool wants(const AttributeReader& reader, std::size_t output) {
  return output < reader.node().outputs.size() && reader.node().outputs[output].valid();
}

std::optional<std::vector<ValueId>> decompose_skip_normalisation(GraphBuilder& builder, const AttributeReader& reader,
                                                                 std::span<const ValueId> inputs) {
  const ValueId sum = summed(builder, inputs, 4);
  std::vector<ValueId> operands{sum, inputs[2]};
  if (inputs.size() > 3 && inputs[3].valid()) operands.push_back(inputs[3]);
  const std::size_t outputs = wants(reader, 1) || wants(reader, 2) ? 3 : 1;
  std::vector<ValueId> made =
      builder.add_multi("LayerNormalization", operands, outputs, {{"epsilon", reader.real("epsilon")}});
  made.resize(3);
  made.push_back(sum);
  return made;
}

std::optional<std::vector<ValueId>> decompose_simplified(GraphBuilder& builder, const AttributeReader& reader,
                                                         std::span<const ValueId> inputs) {
  const float epsilon = reader.real("epsilon");
  const ValueId sum = summed(builder, inputs, 3);
  std::vector<ValueId> made(3);
  made[0] = builder.add("RMSNormalization", {sum, inputs[2]}, {{"epsilon", epsilon}});
  if (wants(reader, 1) || wants(reader, 2)) {
    const ValueId wide = builder.cast(sum, DType::f32);
    const ValueId mean_square = builder.add("ReduceMean", {builder.add("Mul", {wide, wide}), builder.integers({-1})});
    const ValueId deviation = builder.add("Sqrt", {builder.add("Add", {mean_square, builder.scalar(epsilon)})});
    made[1] = builder.add("ConstantOfShape", {builder.add("Shape", {deviation})});
    made[2] = builder.add("Reciprocal", {deviation});
  }
  made.push_back(sum);
  return made;
}

const std::vector<Parameter> kSkipNormalisationOutputs{{"output", types::floats, "T"},
                                                       {"mean", {DType::f32}, "U", optional},
                                                       {"inv_std_var", {DType::f32}, "U", optional},
                                                       {"input_skip_bias_sum", types::floats, "T", optional}};
const std::vector<AttributeSpec> kSkipNormalisationAttributes{{"epsilon", AttributeKind::real, ir::Attribute(1e-12f)}};

}  // namespace

// s = input + skip + bias; LayerNormalization of s over its last axis, the statistics, and s itself.
const OpDef skip_layer_normalization{
    .name = "com.microsoft::SkipLayerNormalization",
    .since = 1,
    .inputs = {{"input", types::floats, "T"},
               {"skip", types::floats, "T"},
               {"gamma", types::floats, "T"},
               {"beta", types::floats, "T", optional},
               {"bias", types::floats, "T", optional}},
    .outputs = kSkipNormalisationOutputs,
    .attributes = kSkipNormalisationAttributes,
    .infer = infer_skip_normalisation,
    .operations = operations_per_output<9>,
    .decompose = decompose_skip_normalisation,
    .traits = {Trait::normalises},
};

// SkipLayerNormalization with RMSNormalization; its mean is 0.
const OpDef skip_simplified_layer_normalization{
    .name = "com.microsoft::SkipSimplifiedLayerNormalization",
    .since = 1,
    .inputs = {{"input", types::floats, "T"},
               {"skip", types::floats, "T"},
               {"gamma", types::floats, "T"},
               {"bias", types::floats, "T", optional}},
    .outputs = kSkipNormalisationOutputs,
    .attributes = kSkipNormalisationAttributes,
    .infer = infer_skip_normalisation,
    .operations = operations_per_output<6>,
    .decompose = decompose_simplified,
    .traits = {Trait::normalises},
};

}  // namespace tessera::ops
