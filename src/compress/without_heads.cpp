// Takes heads out of a net: the constants of its products, shapes and cuts become smaller.
#include <algorithm>

#include "compress/cut_constant.h"
#include "compress/graph_facts.h"
#include "compress/heads.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;
using ops::constant_integers;
using passes::integer_of;

// Writes a graph with smaller constants node by node.
class HeadShrinker {
 public:
  HeadShrinker(ir::Graph graph, const HeadSets& sets) : graph_(std::move(graph)), sets_(sets) {}

  ir::Graph run() {
    for (const NodeId id : graph_.order()) shrink(id);
    infer_cut_graph(graph_);
    return std::move(graph_);
  }

 private:
  bool shrinks(ValueId value) const {
    return value.valid() && sets_.has_channels(value) &&
           static_cast<std::int64_t>(sets_.kept(value).size()) < size_of(graph_, value, sets_.axis_of(value));
  }

  void shrink(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ValueId x = node.inputs.empty() ? ValueId() : node.inputs[0],
                  y = node.outputs.empty() ? ValueId() : node.outputs[0];
    if ((node.op == "MatMul" || node.op == "Gemm") && graph_.is_constant(node.inputs[1])) {
      const std::size_t outputs = integer_of(node, "transB", 0) != 0 ? 0 : 1;
      if (shrinks(x)) cut_constant(graph_, id, 1, 1 - outputs, sets_.kept(x));
      if (!shrinks(y)) return;
      cut_constant(graph_, id, 1, outputs, sets_.kept(y));
      if (node.inputs.size() > 2 && node.inputs[2].valid())
        cut_broadcast(graph_, id, 2, rank_of(graph_, y), sets_.axis_of(y), sets_.kept(y));
    } else if (node.op == "Reshape") {
      if (shrinks(y)) resize(id, 1, sets_.axis_of(y), static_cast<std::int64_t>(sets_.kept(y).size()));
    } else if (node.op == "Split") {
      split(id);
    } else if (node.op == "Slice") {
      slice(id);
    } else if (is_element_wise(node) && shrinks(y)) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        cut_broadcast(graph_, id, i, rank_of(graph_, y), sets_.axis_of(y), sets_.kept(y));
    }
  }

  void set_integers(NodeId id, std::size_t input, const Integers& values) {
    const std::string name = graph_.fresh_name(graph_.value(graph_.node(id).inputs[input]).name);
    graph_.node(id).inputs[input] = graph_.add_constant(
        Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values)),
        name);
  }

  // 0 and -1 follow the data.
  void resize(NodeId id, std::size_t input, std::size_t axis, std::int64_t size) {
    Integers shape = *constant_integers(graph_, graph_.node(id), input);
    if (shape[axis] <= 0) return;
    shape[axis] = size;
    set_integers(id, input, shape);
  }

  void split(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (!shrinks(node.inputs[0]) || node.inputs.size() < 2 || !node.inputs[1].valid()) return;
    if (axis_at(integer_of(node, "axis", 0), rank_of(graph_, node.inputs[0])) != sets_.axis_of(node.inputs[0])) return;
    Integers sizes;
    for (const ValueId output : node.outputs) sizes.push_back(static_cast<std::int64_t>(sets_.kept(output).size()));
    set_integers(id, 1, sizes);
  }

  void slice(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (!shrinks(node.inputs[0])) return;
    const std::size_t rank = rank_of(graph_, node.inputs[0]);
    if (axis_at((*constant_integers(graph_, node, 3))[0], rank) != sets_.axis_of(node.inputs[0])) return;
    const std::int64_t all = size_of(graph_, node.inputs[0], sets_.axis_of(node.inputs[0]));
    std::int64_t begin = (*constant_integers(graph_, node, 1))[0];
    begin = std::clamp<std::int64_t>(begin < 0 ? begin + all : begin, 0, all);
    const Integers kept = sets_.kept(node.inputs[0]);
    const std::int64_t first = std::ranges::lower_bound(kept, begin) - kept.begin();
    const auto size = static_cast<std::int64_t>(sets_.kept(node.outputs[0]).size());
    set_integers(id, 1, {first});
    set_integers(id, 2, {first + size});
  }

  ir::Graph graph_;
  const HeadSets& sets_;
};

}  // namespace

ir::Graph without_heads(ir::Graph graph, const HeadSets& sets) {
  return HeadShrinker(std::move(graph), sets).run();
}

}  // namespace tessera::compress
