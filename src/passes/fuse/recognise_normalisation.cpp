// Replaces normalisation written as arithmetic (normalisation_pattern.h) by LayerNormalization, by
// InstanceNormalization where scale and shift are per channel, or, without a mean, by RMSNormalization.
#include <algorithm>
#include <optional>

#include "ops/convolutions/channels_last.h"
#include "ops/core/builder.h"
#include "ops/rows/reduction.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/affine_operands.h"
#include "passes/patterns/normalisation_pattern.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;
using Axes = std::vector<std::int64_t>;
using Normalised = SpeltNormalisation;

class NormalisationRecogniser {
 public:
  explicit NormalisationRecogniser(ir::Graph graph)
      : graph_(std::move(graph)), builder_(graph_), uses_(graph_.compute_uses()), taken_(graph_.value_count(), false) {}

  ir::Graph run() {
    // Visits in reverse order, so that scale and shift are found before the normalisation that they follow.
    const auto rule = [&](NodeId id) {
      const ir::Node& node = graph_.node(id);
      return (node.op == "Add" || node.op == "Mul" || node.op == "Div") &&
             !taken_[static_cast<std::size_t>(node.outputs[0].index)] && recognise(id);
    };
    rewrite_each(graph_, rule, Visit::backwards);
    return std::move(graph_);
  }

 private:
  bool recognise(NodeId id) {
    const ValueId value = graph_.node(id).outputs[0];
    const std::optional<Normalised> found = find_normalisation(graph_, value, inside_);
    const bool fits = found && is_closed(graph_, uses_, inside_, id) && normalises(graph_.value(value).type.dtype) &&
                      (by_rows(id, *found) || by_channels(id, *found) || by_last_channels(id, *found) ||
                       by_groups_of_last_channels(id, *found));
    if (!fits) return false;
    for (const NodeId node : inside_) taken_[static_cast<std::size_t>(graph_.node(node).outputs[0].index)] = true;
    return true;
  }

  // The operators compute statistics in float32, which is too imprecise for f64.
  static bool normalises(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

  // --- the operators
  bool by_rows(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    const auto rank = static_cast<std::int64_t>(dims.size()), first = found.of.axes[0];
    if (static_cast<std::int64_t>(found.of.axes.size()) != rank - first) return false;
    const bool wants_shift = found.shift.valid();
    const auto scale = per_element(graph_, found.scale, dims, static_cast<std::size_t>(first), type, 1);
    const auto shift = wants_shift ? per_element(graph_, found.shift, dims, static_cast<std::size_t>(first), type, 0)
                                   : std::optional(ValueId());
    if (!scale || !shift) return false;
    std::vector<ValueId> operands{found.of.x, *scale};
    if (wants_shift) operands.push_back(*shift);
    const std::int64_t axis = first == rank - 1 ? -1 : first;
    put_operator(graph_, id, found.of.centred ? "LayerNormalization" : "RMSNormalization", std::move(operands),
                 {{"axis", axis}, {"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, C, positions…] with all positions normalised, with a scale and a shift of [C, 1…].
  bool by_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    if (!found.of.centred || dims.size() < 3 || found.of.axes[0] != 2 || found.of.axes.size() != dims.size() - 2)
      return false;
    const std::optional<ValueId> scale = per_channel(graph_, found.scale, dims, type, 1),
                                 shift = per_channel(graph_, found.shift, dims, type, 0);
    if (!scale || !shift) return false;
    put_operator(graph_, id, "InstanceNormalization", {found.of.x, *scale, *shift},
                 {{"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, positions…, C] with two or more axes of positions, all of them normalised, with a scale and a shift of [C]. The
  // operator needs the channels first.
  bool by_last_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    if (!found.of.centred || dims.size() < 4 || found.of.axes != between(1, dims.size() - 1)) return false;
    const auto scale = per_element(graph_, found.scale, dims, dims.size() - 1, type, 1),
               shift = per_element(graph_, found.shift, dims, dims.size() - 1, type, 0);
    if (!scale || !shift || !graph_.is_constant(*scale) || !graph_.is_constant(*shift)) return false;
    put_turned(id, "InstanceNormalization", found.of.x, *scale, *shift,
               {{"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, positions…, C] viewed as [N, positions…, groups, channels of a group], with all axes but N and the groups
  // normalised, and viewed back, as Keras exports it.
  bool by_groups_of_last_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    const std::size_t rank = dims.size();
    const ir::Node* split = producer_of(graph_, found.of.x, "Reshape");
    const ValueId result = graph_.node(id).outputs[0];
    const std::vector<NodeId>& users = uses_[static_cast<std::size_t>(result.index)];
    if (!found.of.centred || rank < 5 || split == nullptr || users.size() != 1 || is_result(graph_, result))
      return false;
    Axes wanted = between(1, rank - 2);
    wanted.push_back(static_cast<std::int64_t>(rank) - 1);
    const ValueId x = split->inputs[0];
    const ir::Node& joined = graph_.node(users[0]);
    const Dims* whole = dims_of(graph_, x);
    if (found.of.axes != wanted || whole == nullptr || whole->size() + 1 != rank || joined.op != "Reshape" ||
        joined.inputs[0] != result)
      return false;
    if (!same_dims(graph_, x, joined.outputs[0]) && !is_shape_of(graph_, joined.inputs[1], x)) return false;
    const ir::Dim channels = dims[rank - 2] * dims[rank - 1];
    const auto last = static_cast<std::ptrdiff_t>(rank) - 2;
    if (!channels.is_known() || !dims[rank - 2].is_known() || !whole->back().surely_equals(channels) ||
        !surely_equal({dims.begin(), dims.begin() + last}, {whole->begin(), whole->begin() + last}))
      return false;
    const auto scale = per_element(graph_, found.scale, dims, rank - 2, type, 1),
               shift = per_element(graph_, found.shift, dims, rank - 2, type, 0);
    if (!scale || !shift || !graph_.is_constant(*scale) || !graph_.is_constant(*shift)) return false;
    const auto flat = [&](ValueId value) {
      return graph_.add_constant(graph_.constant(value)->reshaped({channels.value()}));
    };
    put_turned(users[0], "GroupNormalization", x, flat(*scale), flat(*shift),
               {{"epsilon", static_cast<float>(found.of.epsilon)}, {"num_groups", dims[rank - 2].value()}});
    return true;
  }

  static Axes between(std::size_t first, std::size_t end) {
    Axes axes;
    for (std::size_t axis = first; axis < end; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
    return axes;
  }

  // Replaces the node by the operator on data whose last axis is moved to the second place, and moves it back.
  void put_turned(NodeId id, std::string op, ValueId x, ValueId scale, ValueId shift, ir::Attributes attributes) {
    const std::size_t rank = dims_of(graph_, x)->size();
    const ValueId first = builder_.add("Transpose", {x}, {{"perm", ops::to_channels_first(rank)}});
    const ValueId normalised = builder_.add(std::move(op), {first, scale, shift}, std::move(attributes));
    put_operator(graph_, id, "Transpose", {normalised}, {{"perm", ops::to_channels_last(rank)}});
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> taken_;  // values whose nodes an earlier replacement made needless
  std::vector<NodeId> inside_;
};

}  // namespace

ir::Graph recognise_normalisation(ir::Graph graph, const PassContext&) {
  return NormalisationRecogniser(std::move(graph)).run();
}

}  // namespace tessera::passes
