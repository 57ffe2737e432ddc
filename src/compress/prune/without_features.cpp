// Removes features from a net: the constants of its layers, shapes and slices become smaller.
#include <algorithm>

#include "compress/core/graph_facts.h"
#include "compress/prune/cut_constant.h"
#include "compress/prune/features.h"
#include "ops/op_table.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;
using ops::constant_integers;
using passes::integer_of;

// Rewrites a graph with smaller constants, node by node.
class FeatureShrinker {
 public:
  FeatureShrinker(ir::Graph graph, const FeatureSets& sets) : graph_(std::move(graph)), sets_(sets) {}

  ir::Graph run() {
    for (const NodeId id : graph_.order()) shrink(id);
    infer_cut_graph(graph_);
    return std::move(graph_);
  }

 private:
  // Reduces operand `input` along `axis` to the entries that are left in value `by` along its axis `along`.
  void cut(NodeId id, std::size_t input, std::size_t axis, ValueId by, std::size_t along) {
    if (sets_.has_features(by, along)) cut_constant(graph_, id, input, axis, sets_.kept(by, along), made_);
  }

  void cut_addend(NodeId id, std::size_t input, ValueId by) {
    for (std::size_t axis = 0; axis < sets_.layout(by).axes.size(); ++axis)
      if (const Integers kept = sets_.kept(by, axis); !kept.empty())
        cut_broadcast(graph_, id, input, sets_.layout(by).axes.size(), axis, kept, made_);
  }

  void shrink(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.inputs.empty() || node.outputs.empty()) return;
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (node.op == "Conv" || node.op == "ConvTranspose") {
      convolution(id, node.op == "Conv");
    } else if ((node.op == "Gemm" || node.op == "MatMul") && graph_.is_constant(node.inputs[1])) {
      const std::size_t outputs = integer_of(node, "transB", 0) != 0 ? 0 : 1;
      cut(id, 1, 1 - outputs, x, rank_of(graph_, x) - 1);
      cut(id, 1, outputs, y, rank_of(graph_, y) - 1);
      if (node.inputs.size() > 2 && node.inputs[2].valid() && sets_.has_features(y)) cut_addend(id, 2, y);
    } else if (node.op == "BatchNormalization") {
      for (std::size_t i = 1; i < 5; ++i) cut(id, i, 0, y, 1);
    } else if (node.op == "Reshape" && sets_.has_features(y)) {
      reshape(id);
    } else if (node.op == "Split" && sets_.has_features(x)) {
      split(id);
    } else if (node.op == "Slice" && sets_.has_features(x)) {
      slice(id);
    } else if (is_element_wise(node) && sets_.has_features(y)) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i].valid()) cut_addend(id, i, y);
    }
  }

  void convolution(NodeId id, bool forward) {
    const ir::Node node = graph_.node(id);
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (forward && is_depthwise(graph_, node)) {
      cut(id, 1, 0, y, 1);
      if (sets_.has_features(x, 1))
        graph_.node(id).attributes.insert_or_assign("group", static_cast<std::int64_t>(sets_.kept(x, 1).size()));
    } else {
      cut(id, 1, forward ? 0 : 1, y, 1);
      cut(id, 1, forward ? 1 : 0, x, 1);
    }
    cut(id, 2, 0, y, 1);
  }

  ValueId integers(const std::string& name, const Integers& values) {
    return graph_.add_constant(
        Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values)),
        graph_.fresh_name(name));
  }

  // Entries 0 and -1 of the shape adapt to the data.
  void reshape(NodeId id) {
    const ValueId y = graph_.node(id).outputs[0];
    Integers shape = *constant_integers(graph_, graph_.node(id), 1);
    const Integers before = shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] > 0 && sets_.has_features(y, axis))
        shape[axis] = static_cast<std::int64_t>(sets_.kept(y, axis).size());
    if (shape != before) graph_.node(id).inputs[1] = integers("shape", shape);
  }

  // The parts may have lost different numbers of entries.
  void split(NodeId id) {
    ir::Node& node = graph_.node(id);
    const std::size_t axis = axis_at(integer_of(node, "axis", 0), rank_of(graph_, node.inputs[0]));
    if (!sets_.has_features(node.inputs[0], axis)) return;
    Integers sizes;
    for (const ValueId output : node.outputs)
      sizes.push_back(static_cast<std::int64_t>(sets_.kept(output, axis).size()));
    const ValueId constant = integers("sizes", sizes);
    ir::Node& changed = graph_.node(id);
    if (changed.inputs.size() < 2) changed.inputs.resize(2);
    changed.inputs[1] = constant;
    changed.attributes.erase("num_outputs");
  }

  void slice(NodeId id) {
    const ir::Node node = graph_.node(id);
    const std::size_t axis = axis_at((*constant_integers(graph_, node, 3))[0], rank_of(graph_, node.inputs[0]));
    if (!sets_.has_features(node.inputs[0], axis)) return;
    const std::int64_t all = size_of(graph_, node.inputs[0], axis);
    std::int64_t begin = (*constant_integers(graph_, node, 1))[0];
    begin = std::clamp<std::int64_t>(begin < 0 ? begin + all : begin, 0, all);
    const Integers kept = sets_.kept(node.inputs[0], axis);
    const std::int64_t first = std::ranges::lower_bound(kept, begin) - kept.begin();
    const auto size = static_cast<std::int64_t>(sets_.kept(node.outputs[0], axis).size());
    const ValueId from = integers("begin", {first}), to = integers("end", {first + size});
    graph_.node(id).inputs[1] = from;
    graph_.node(id).inputs[2] = to;
  }

  ir::Graph graph_;
  const FeatureSets& sets_;
  CutConstants made_;
};

}  // namespace

ir::Graph without_features(ir::Graph graph, const FeatureSets& sets) {
  return FeatureShrinker(std::move(graph), sets).run();
}

}  // namespace tessera::compress
