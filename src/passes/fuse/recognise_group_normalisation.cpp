// Replaces a normalisation of [N, groups, …] between reshapes, followed by a scale and a shift per channel, by
// GroupNormalization. PyTorch exports it in this form.
#include <algorithm>
#include <optional>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/affine_operands.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;

struct Grouped {
  ValueId x, scale, shift;
  std::int64_t groups = 1;
  float epsilon = 0;
};

class GroupNormalisationRecogniser {
 public:
  explicit GroupNormalisationRecogniser(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    // Visits in reverse order, so that scale and shift are found before the normalisation that they follow.
    rewrite_each(graph_, [&](NodeId id) { return recognise(id); }, Visit::backwards);
    return std::move(graph_);
  }

 private:
  bool recognise(NodeId id) {
    inside_.clear();
    const ir::Node& node = graph_.node(id);
    std::optional<Grouped> found;
    if (node.op == "Add")
      found = shifted(node.inputs[0], node.inputs[1]), found = found ? found : shifted(node.inputs[1], node.inputs[0]);
    else if (node.op == "Mul")
      found = scaled(node.inputs[0], node.inputs[1]), found = found ? found : scaled(node.inputs[1], node.inputs[0]);
    else if (node.op == "Reshape") found = normalised(node.outputs[0]);
    return found && is_closed(graph_, uses_, inside_, id) && place(id, *found);
  }

  const ir::Node* take(ValueId value, std::string_view op) {
    const ir::Node* node = producer_of(graph_, value, op);
    if (node != nullptr) inside_.push_back(graph_.value(value).producer);
    return node;
  }

  std::optional<Grouped> shifted(ValueId value, ValueId shift) {
    inside_.clear();
    const ir::Node* product = take(value, "Mul");
    if (product == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
      inside_.resize(1);
      std::optional<Grouped> found = normalised(product->inputs[i]);
      if (!found) continue;
      found->scale = product->inputs[1 - i];
      found->shift = shift;
      return found;
    }
    return std::nullopt;
  }
  std::optional<Grouped> scaled(ValueId value, ValueId scale) {
    inside_.clear();
    std::optional<Grouped> found = normalised(value);
    if (found) found->scale = scale;
    return found;
  }

  // [N, C, …] reshaped to [N, groups, …], normalised over all but the first two axes, and reshaped back.
  std::optional<Grouped> normalised(ValueId value) {
    const ir::Node* last = take(value, "Reshape");
    if (last == nullptr) return std::nullopt;
    const ir::Node* node = take(last->inputs[0], "InstanceNormalization");
    if (node == nullptr) node = take(last->inputs[0], "LayerNormalization");
    const ir::Node* first = node == nullptr ? nullptr : take(node->inputs[0], "Reshape");
    if (first == nullptr || !is_plain(*node)) return std::nullopt;
    const ValueId x = first->inputs[0];
    const Dims *from = dims_of(graph_, x), *between = dims_of(graph_, node->inputs[0]), *to = dims_of(graph_, value);
    if (from == nullptr || between == nullptr || to == nullptr || from->size() < 3 || between->size() < 3 ||
        to->size() != from->size())
      return std::nullopt;
    const bool fits = (*from)[0].surely_equals((*between)[0]) && (*from)[1].is_known() && (*between)[1].is_known() &&
                      (*between)[1].value() > 0 && (*from)[1].value() % (*between)[1].value() == 0;
    // One of the restored dimensions may be unknown: the others determine its size.
    std::size_t sure = 0;
    for (std::size_t i = 0; i < from->size(); ++i) sure += (*from)[i].surely_equals((*to)[i]) ? 1 : 0;
    if (!fits || (sure + 1 < from->size() && !is_shape_of(graph_, last->inputs[1], x))) return std::nullopt;
    const auto epsilon = node->attributes.find("epsilon");
    return Grouped{
        x, {}, {}, (*between)[1].value(), epsilon == node->attributes.end() ? 1e-5f : std::get<float>(epsilon->second)};
  }

  // Whether the node has a scale of ones and a shift of zeros, and normalises all axes from the third on.
  bool is_plain(const ir::Node& node) const {
    if (!is_filled_with(graph_, node.inputs[1], 1) ||
        (node.inputs.size() > 2 && node.inputs[2].valid() && !is_filled_with(graph_, node.inputs[2], 0)))
      return false;
    if (node.op == "InstanceNormalization") return true;
    const Dims* dims = dims_of(graph_, node.inputs[0]);
    const auto given = node.attributes.find("axis");
    const std::int64_t axis = given == node.attributes.end() ? -1 : std::get<std::int64_t>(given->second);
    return dims != nullptr && (axis == 2 || axis + static_cast<std::int64_t>(dims->size()) == 2);
  }

  bool place(NodeId id, const Grouped& found) {
    const Dims dims = *dims_of(graph_, found.x);
    const DType type = graph_.value(found.x).type.dtype;
    const std::optional<ValueId> scale = per_channel(graph_, found.scale, dims, type, 1),
                                 shift = per_channel(graph_, found.shift, dims, type, 0);
    if (!scale || !shift) return false;
    put_operator(graph_, id, "GroupNormalization", {found.x, *scale, *shift},
                 {{"epsilon", found.epsilon}, {"num_groups", found.groups}});
    return true;
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<NodeId> inside_;  // the nodes of the pattern
};

}  // namespace

ir::Graph recognise_group_normalisation(ir::Graph graph, const PassContext&) {
  return GroupNormalisationRecogniser(std::move(graph)).run();
}

}  // namespace tessera::passes
