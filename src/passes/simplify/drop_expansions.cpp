// Removes Expand, Tile and ConstantOfShape whose result is only broadcast: the operator behind them broadcasts itself,
// as long as its other operands give its result the same shape.
#include <algorithm>
#include <optional>

#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Dim;
using ir::Dims;
using ir::NodeId;
using ir::ValueId;

bool broadcasts(const ir::Node& node) {
  return ops::op_of(node).element_wise == ops::ElementWise::broadcasting;
}

class Dropper {
 public:
  explicit Dropper(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) { return drop(id); });
    return std::move(graph_);
  }

 private:
  bool drop(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.op != "Expand" && node.op != "Tile" && node.op != "ConstantOfShape") return false;
    const ValueId result = node.outputs[0];
    ValueId smaller;
    bool changed = false;
    for (const NodeId user : uses_[static_cast<std::size_t>(result.index)]) {
      if (!smaller.valid()) smaller = source(node);
      if (!smaller.valid()) return false;
      if (!has_shape_from(node, graph_.node(user)) && !keeps_shape(graph_.node(user), result, smaller)) continue;
      std::ranges::replace(graph_.node(user).inputs, result, smaller);
      changed = true;
    }
    return changed;
  }

  // The value that the node repeats.
  ValueId source(const ir::Node& node) {
    if (node.op == "Expand") return node.inputs[0];
    if (node.op == "ConstantOfShape") {
      const auto given = node.attributes.find("value");
      const Tensor value = given == node.attributes.end() ? Tensor::scalar(0.0f) : std::get<Tensor>(given->second);
      if (value.elements() != 1 || !value.has_data() || value.dtype() == DType::string || bits_of(value.dtype()) < 8)
        return {};
      Tensor scalar(value.dtype(), {});
      std::copy_n(static_cast<const std::byte*>(value.raw()), static_cast<std::size_t>(value.bytes()),
                  static_cast<std::byte*>(scalar.mutable_raw()));
      return graph_.add_constant(std::move(scalar));
    }
    const Tensor* repeats = graph_.constant(node.inputs[1]);
    const Dims* dims = dims_of(graph_, node.inputs[0]);
    if (repeats == nullptr || !repeats->has_data() || dims == nullptr ||
        repeats->elements() != static_cast<std::int64_t>(dims->size()))
      return {};
    for (std::size_t i = 0; i < dims->size(); ++i) {
      const std::int64_t times = repeats->values<std::int64_t>()[i];
      if (times < 1 || (times != 1 && !(*dims)[i].surely_equals(1))) return {};
    }
    return node.inputs[0];
  }

  // Whether the node expands to the shape of another operand of its user.
  bool has_shape_from(const ir::Node& node, const ir::Node& user) const {
    if (!broadcasts(user) || node.op == "Tile") return false;
    const ValueId shape = node.inputs[node.op == "Expand" ? 1 : 0];
    return std::ranges::any_of(user.inputs, [&](ValueId input) {
      return input.valid() && input != node.outputs[0] && is_shape_of(graph_, shape, input);
    });
  }

  // Whether the node's result surely keeps its shape if the node reads `smaller` in place of `result`.
  bool keeps_shape(const ir::Node& node, ValueId result, ValueId smaller) const {
    if (!broadcasts(node)) return false;
    const Dims *to = dims_of(graph_, node.outputs[0]), *from = dims_of(graph_, smaller);
    if (to == nullptr || from == nullptr || from->size() > to->size()) return false;
    for (std::size_t i = 0; i < to->size(); ++i) {
      const Dim& wanted = (*to)[to->size() - 1 - i];
      const bool given = std::ranges::any_of(node.inputs, [&](ValueId input) {
        const Dims* dims = input.valid() ? dims_of(graph_, input == result ? smaller : input) : nullptr;
        return dims != nullptr && i < dims->size() && (*dims)[dims->size() - 1 - i].surely_equals(wanted);
      });
      if (!given) return false;
    }
    return true;
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph drop_expansions(ir::Graph graph, const PassContext&) {
  return Dropper(std::move(graph)).run();
}

}  // namespace tessera::passes
