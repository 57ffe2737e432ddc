#include "train/net/mixed_precision.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace tessera::train {
namespace {

using ir::ValueId;

constexpr std::array<std::string_view, 5> kProducts = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum"};

bool is_f32(const ir::Graph& graph, ValueId id) {
  return id.valid() && graph.value(id).type.is_tensor() && graph.value(id).type.dtype == DType::f32;
}

}  // namespace

void round_products(ir::Graph& graph, DType type) {
  ops::GraphBuilder builder(graph);
  std::map<ValueId, ValueId> rounded;
  const auto round = [&](ValueId id) { return ops::Term(builder, id).cast(type).cast(DType::f32).id(); };
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    if (std::ranges::find(kProducts, std::string_view(graph.node(id).op)) == kProducts.end()) continue;
    const bool is_sum = graph.node(id).op == "Gemm" || graph.node(id).op.starts_with("Conv");
    // A bias is added to the sum in float32.
    const std::size_t multiplied =
        is_sum ? std::min<std::size_t>(2, graph.node(id).inputs.size()) : graph.node(id).inputs.size();
    for (std::size_t i = 0; i < multiplied; ++i) {
      const ValueId operand = graph.node(id).inputs[i];
      if (!is_f32(graph, operand)) continue;
      const auto [entry, is_new] = rounded.try_emplace(operand);
      if (is_new) entry->second = round(operand);
      graph.node(id).inputs[i] = entry->second;
    }
    const ValueId result = graph.node(id).outputs[0];
    if (!is_f32(graph, result) || graph.is_output(result)) continue;
    // The node gets a new value as its result, and all readers read that one rounded.
    ir::Node node = graph.node(id);
    const ValueId exact = graph.add_value(graph.fresh_name(graph.value(result).name), graph.value(result).type);
    graph.remove_node(id);
    node.outputs[0] = exact;
    graph.add_node(std::move(node));
    const ValueId given = round(exact);
    rounded[given] = given;
    graph.replace_uses(result, given);
  }
  graph.sort_topologically();
  ops::infer_graph(graph);
}

}  // namespace tessera::train
