// Lets convolutions and products in float32, whose data and weights were rounded to bfloat16 and widened, as in a
// training step of mixed precision, multiply the bfloat16 numbers (ops/products/rounded_product.h): the same sums in
// float32, with instructions for bfloat16. Where all users round the result, the layer rounds it. A product with a
// transposed matrix on the left, such as a gradient of weights, transposes the rounded numbers first. Only as far as
// the device has a kernel.
#include <optional>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/linear_form.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The input of type `from` of the Cast that makes the value, of type `to`; invalid where there is none.
ValueId cast_of(const ir::Graph& graph, ValueId value, DType from, DType to) {
  const ir::Node* cast = producer_of(graph, value, "Cast");
  const bool found =
      cast != nullptr && graph.value(value).type.dtype == to && graph.value(cast->inputs[0]).type.dtype == from;
  return found ? cast->inputs[0] : ValueId{};
}

// The Cast to bfloat16, if it is the only node that reads the value.
std::optional<NodeId> only_rounding(const ir::Graph& graph, ValueId value,
                                    const std::vector<std::vector<NodeId>>& uses) {
  const std::vector<NodeId>& users = uses[static_cast<std::size_t>(value.index)];
  if (users.size() != 1 || is_result(graph, value)) return std::nullopt;
  const ir::Node& user = graph.node(users[0]);
  const bool rounds = user.op == "Cast" && graph.value(user.outputs[0]).type.dtype == DType::bf16;
  return rounds ? std::optional(users[0]) : std::nullopt;
}

// The product of a transposed matrix as a Linear that reads a new Transpose; nothing if the node is another one, or has
// factors or a bias.
std::optional<ir::Node> transposed_first(ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Gemm" || (node.inputs.size() > 2 && node.inputs[2].valid())) return std::nullopt;
  const ops::AttributeReader reader(node, ops::op_of(node));
  if (reader.integer("transA") == 0 || reader.real("alpha") != 1) return std::nullopt;
  const ValueId x = cast_of(graph, node.inputs[0], DType::bf16, DType::f32),
                w = cast_of(graph, node.inputs[1], DType::bf16, DType::f32);
  if (!x.valid() || !w.valid() || graph.is_constant(x) || dims_of(graph, w) == nullptr || !graph.value(w).type.shape())
    return std::nullopt;
  ops::GraphBuilder builder(graph);
  ir::Node linear{"tessera::Linear", node.name, {}, node.outputs, {{"precision", std::string("bf16")}}, 0};
  if (reader.integer("transB") != 0) linear.attributes.emplace("transB", std::int64_t{1});
  const ValueId exact = cast_of(graph, w, DType::f32, DType::bf16);
  const ValueId turned = builder.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  linear.inputs = {turned, exact.valid() ? exact : node.inputs[1]};
  return linear;
}

// The layer on rounded operands, or nothing.
std::optional<ir::Node> rounded(const ir::Graph& graph, const ir::Node& node) {
  const bool is_weight_gradient = node.op == "tessera::ChannelsLastConvWeightGradient";
  const bool is_convolution = node.op == "tessera::ChannelsLastConv" || node.op == "tessera::ChannelsLastConvTranspose";
  std::optional<ir::Node> layer = is_convolution || is_weight_gradient ? node : as_linear(graph, node);
  if (!layer || layer->attributes.contains("precision")) return std::nullopt;
  const ValueId x = cast_of(graph, layer->inputs[0], DType::bf16, DType::f32),
                w = cast_of(graph, layer->inputs[1], DType::bf16, DType::f32);
  if (!x.valid() || !w.valid()) return std::nullopt;
  layer->inputs[0] = x;
  if (is_weight_gradient) layer->inputs[1] = w;
  // Weights may stay unrounded, because the kernel rounds them when it packs them.
  else if (const ValueId exact = cast_of(graph, w, DType::f32, DType::bf16); exact.valid()) layer->inputs[1] = exact;
  layer->attributes.insert_or_assign("precision", std::string("bf16"));
  return layer;
}

}  // namespace

ir::Graph multiply_rounded(ir::Graph graph, const PassContext& context) {
  if (!context.keeps_composite) return graph;
  const std::vector<std::vector<NodeId>> uses = graph.compute_uses();
  rewrite_each(graph, [&](NodeId id) {
    std::optional<ir::Node> layer = rounded(graph, graph.node(id));
    const bool is_rounded = layer.has_value();
    if (!layer) layer = transposed_first(graph, ir::Node(graph.node(id)));
    if (!layer) return false;
    // A Transpose that was made for a layer which does not take it must go.
    if (!context.keeps_composite(graph, *layer)) return !is_rounded;
    const std::optional<NodeId> rounding = only_rounding(graph, layer->outputs[0], uses);
    if (!rounding) {
      graph.replace_node(id, std::move(*layer));
      return true;
    }
    layer->outputs = graph.node(*rounding).outputs;
    layer->attributes.insert_or_assign("output_dtype", static_cast<std::int64_t>(DType::bf16));
    graph.replace_node(*rounding, std::move(*layer));
    return true;
  });
  return graph;
}

}  // namespace tessera::passes
