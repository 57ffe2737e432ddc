#include "passes/patterns/bf16_kernel.h"

namespace tessera::passes {

bool is_recurrent(const ir::Node& node) {
  return node.op == "LSTM" || node.op == "GRU";
}
bool is_attention(const ir::Node& node) {
  return node.op == "Attention" && node.inputs.size() >= kAttentionOperands;
}

bool has_bf16_kernel(const ir::Graph& graph, const ir::Node& node, const PassContext& context) {
  if (!context.keeps_composite) return false;
  // A graph of this node only, with the types that its kernel would get.
  ir::Graph alone;
  ir::Node rounded = node;
  bool ranks_known = true;
  const auto rounded_type = [&](ir::ValueId value, bool stays = false) {
    const ir::ValueType& type = graph.value(value).type;
    ranks_known = ranks_known && type.is_tensor() && type.dims.has_value();
    Shape shape;
    for (const ir::Dim& dim : type.dims.value_or(ir::Dims{})) shape.push_back(dim.is_known() ? dim.value() : 1);
    const bool is_float = !stays && (type.dtype == DType::f32 || type.dtype == DType::bf16);
    return ir::ValueType::tensor(is_float ? DType::bf16 : type.dtype, shape);
  };
  for (std::size_t i = 0; i < rounded.inputs.size(); ++i) {
    ir::ValueId& input = rounded.inputs[i];
    if (!input.valid()) continue;
    const ir::ValueType type = rounded_type(input, is_attention(node) && i >= kAttentionOperands);
    const bool is_constant = graph.is_constant(input);
    input = is_constant ? alone.add_constant(Tensor(type.dtype, *type.shape(), nullptr, nullptr))
                        : alone.add_input(alone.fresh_name("input"), type);
  }
  for (ir::ValueId& output : rounded.outputs) {
    if (output.valid()) output = alone.add_value(alone.fresh_name("output"), rounded_type(output));
  }
  return ranks_known && context.keeps_composite(alone, rounded);
}

}  // namespace tessera::passes
