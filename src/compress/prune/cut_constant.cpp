#include "compress/prune/cut_constant.h"

#include <cstring>

#include "ops/core/infer.h"

namespace tessera::compress {
namespace {

Tensor take(const Tensor& tensor, std::size_t axis, const std::vector<std::int64_t>& kept) {
  Shape shape = tensor.shape();
  const std::int64_t size = shape[axis];
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  const std::int64_t slab = tensor.elements() == 0 ? 0 : tensor.bytes() / (outer * size);
  shape[axis] = static_cast<std::int64_t>(kept.size());
  Tensor taken(tensor.dtype(), shape);
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(taken.mutable_raw());
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const std::int64_t k : kept) {
      std::memcpy(to, from + (i * size + k) * slab, static_cast<std::size_t>(slab));
      to += slab;
    }
  }
  return taken;
}

}  // namespace

void cut_constant(ir::Graph& graph, ir::NodeId id, std::size_t input, std::size_t axis,
                  const std::vector<std::int64_t>& kept, CutConstants& made) {
  const ir::Node& node = graph.node(id);
  if (node.inputs.size() <= input || !node.inputs[input].valid()) return;
  const ir::ValueId operand = node.inputs[input];
  const Tensor* constant = graph.constant(operand);
  if (constant == nullptr || constant->rank() <= static_cast<std::int64_t>(axis)) return;
  if (static_cast<std::int64_t>(kept.size()) >= constant->shape()[axis]) return;
  const auto [known, is_new] = made.try_emplace({operand, axis, kept});
  if (is_new) {
    const std::string name = graph.value(operand).name;
    const Tensor smaller = take(*constant, axis, kept);
    graph.value(operand).name = graph.fresh_name(name);
    known->second = graph.add_constant(smaller, name);
  }
  graph.node(id).inputs[input] = known->second;
}

void cut_broadcast(ir::Graph& graph, ir::NodeId id, std::size_t input, std::size_t rank, std::size_t axis,
                   const std::vector<std::int64_t>& kept, CutConstants& made) {
  const ir::ValueId operand = graph.node(id).inputs[input];
  const Tensor* constant = operand.valid() ? graph.constant(operand) : nullptr;
  if (constant == nullptr) return;
  const auto own = static_cast<std::size_t>(constant->rank());
  if (own > rank || own + axis < rank) return;  // the operand does not have this axis
  const std::size_t at = own + axis - rank;
  if (constant->shape()[at] > 1) cut_constant(graph, id, input, at, kept, made);
}

void infer_cut_graph(ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    for (const ir::ValueId output : graph.node(id).outputs) {
      if (output.valid()) graph.value(output).type = {};
    }
  }
  graph.remove_dead_and_compact();
  ops::infer_graph(graph);
}

}  // namespace tessera::compress
