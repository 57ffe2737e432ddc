#include "passes/simplify/unpack_sequences.h"

#include <algorithm>
#include <map>

#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;
using Elements = std::vector<ValueId>;

constexpr std::int64_t kMostElements = 4096;

class Unpacker {
 public:
  explicit Unpacker(ir::Graph graph) : graph_(std::move(graph)), builder_(graph_) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) unpack(id);
    if (!changed_) return std::move(graph_);
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    ops::infer_graph(graph_);
    return std::move(graph_);
  }

 private:
  void unpack(NodeId id) {
    const ir::Node node = graph_.node(id);  // a copy: the graph grows
    if (node.op == "SequenceConstruct") learn(node, node.inputs);
    else if (node.op == "SequenceEmpty") learn(node, Elements{});
    else if (node.op == "SplitToSequence") learn(node, pieces_of(node));
    else if (node.op == "Identity" && elements_.contains(node.inputs[0])) learn(node, elements_.at(node.inputs[0]));
    else if (node.op == "SequenceInsert") learn(node, inserted(node));
    else if (node.op == "SequenceErase") learn(node, erased(node));
    else if (node.op == "SequenceAt") take(node);
    else if (node.op == "ConcatFromSequence") join(node);
    else if (node.op == "SequenceLength") count(node);
  }

  void learn(const ir::Node& node, std::optional<Elements> elements) {
    if (elements) elements_[node.outputs[0]] = std::move(*elements);
  }

  const Elements* elements_of(ValueId sequence) const {
    const auto found = elements_.find(sequence);
    return found == elements_.end() ? nullptr : &found->second;
  }

  void replace(const ir::Node& node, ValueId by) {
    if (is_result(graph_, node.outputs[0])) {  // a result keeps its name
      graph_.remove_node(graph_.value(node.outputs[0]).producer);
      graph_.add_node({"Identity", "", {by}, node.outputs, {}, 0});
    } else {
      graph_.replace_uses(node.outputs[0], by);
    }
    changed_ = true;
  }

  // The constant position of an element, from the end if it is negative; `otherwise` if the input is absent.
  std::optional<std::int64_t> position(const ir::Node& node, std::size_t input, std::int64_t size,
                                       std::int64_t otherwise) const {
    if (input >= node.inputs.size() || !node.inputs[input].valid()) return otherwise;
    const std::optional<double> number = scalar_of(graph_, node.inputs[input]);
    if (!number) return std::nullopt;
    const auto at = static_cast<std::int64_t>(*number);
    const std::int64_t counted = at < 0 ? at + size : at;
    return counted < 0 || counted > size ? std::nullopt : std::optional(counted);
  }

  std::optional<Elements> inserted(const ir::Node& node) const {
    const Elements* before = elements_of(node.inputs[0]);
    if (before == nullptr) return std::nullopt;
    const auto size = static_cast<std::int64_t>(before->size());
    const std::optional<std::int64_t> at = position(node, 2, size, size);
    if (!at) return std::nullopt;
    Elements after = *before;
    after.insert(after.begin() + *at, node.inputs[1]);
    return after;
  }

  std::optional<Elements> erased(const ir::Node& node) const {
    const Elements* before = elements_of(node.inputs[0]);
    if (before == nullptr || before->empty()) return std::nullopt;
    const auto size = static_cast<std::int64_t>(before->size());
    const std::optional<std::int64_t> at = position(node, 1, size, size - 1);
    if (!at || *at == size) return std::nullopt;
    Elements after = *before;
    after.erase(after.begin() + *at);
    return after;
  }

  void take(const ir::Node& node) {
    const Elements* elements = elements_of(node.inputs[0]);
    if (elements == nullptr) return;
    const auto size = static_cast<std::int64_t>(elements->size());
    const std::optional<std::int64_t> at = position(node, 1, size, 0);
    if (at && *at < size) replace(node, (*elements)[static_cast<std::size_t>(*at)]);
  }

  void join(const ir::Node& node) {
    const Elements* found = elements_of(node.inputs[0]);
    if (found == nullptr || found->empty()) return;
    Elements elements = *found;
    const std::int64_t axis = integer_of(node, "axis", 0);
    if (integer_of(node, "new_axis", 0) != 0) {
      for (ValueId& each : elements) each = builder_.add("Unsqueeze", {each, builder_.integers({axis})});
    }
    replace(node, builder_.add("Concat", std::move(elements), {{"axis", axis}}));
  }

  void count(const ir::Node& node) {
    if (const Elements* elements = elements_of(node.inputs[0]))
      replace(node, builder_.constant(Tensor::scalar(static_cast<std::int64_t>(elements->size()))));
  }

  // The sizes of the pieces along the axis; nothing while they are not known.
  std::optional<std::vector<std::int64_t>> sizes_of(const ir::Node& node, std::size_t axis) const {
    const bool given = node.inputs.size() > 1 && node.inputs[1].valid();
    const Tensor* split = given ? graph_.constant(node.inputs[1]) : nullptr;
    if (given && split == nullptr) return std::nullopt;
    if (given && split->rank() == 1) return constant_integers(graph_, node, 1);
    const ir::Dim& whole = (*dims_of(graph_, node.inputs[0]))[axis];
    const auto size = static_cast<std::int64_t>(given ? scalar_of(graph_, node.inputs[1]).value_or(0) : 1);
    if (!whole.is_known() || size < 1 || whole.value() / size > kMostElements) return std::nullopt;
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = whole.value(); left > 0; left -= size) sizes.push_back(std::min(size, left));
    return sizes;
  }

  std::optional<Elements> pieces_of(const ir::Node& node) {
    const ir::Dims* dims = dims_of(graph_, node.inputs[0]);
    if (dims == nullptr || dims->empty()) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(dims->size());
    const std::int64_t given = integer_of(node, "axis", 0), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) return std::nullopt;
    const auto sizes = sizes_of(node, static_cast<std::size_t>(axis));
    if (!sizes || sizes->empty()) return std::nullopt;
    Elements pieces;
    if (sizes->size() == 1) pieces = {builder_.add("Identity", {node.inputs[0]})};
    else
      pieces =
          builder_.add_multi("Split", {node.inputs[0], builder_.integers(*sizes)}, sizes->size(), {{"axis", axis}});
    const bool by_ones = node.inputs.size() < 2 || !node.inputs[1].valid();
    if (by_ones && integer_of(node, "keepdims", 1) == 0) {
      for (ValueId& each : pieces) each = builder_.add("Squeeze", {each, builder_.integers({axis})});
    }
    return pieces;
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  std::map<ValueId, Elements> elements_;
  bool changed_ = false;
};

}  // namespace

ir::Graph unpack_sequences(ir::Graph graph) {
  return Unpacker(std::move(graph)).run();
}

}  // namespace tessera::passes
