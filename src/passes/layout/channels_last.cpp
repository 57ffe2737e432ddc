// Changes convolutions, pooling and the operators between them to data with the channels last, [N, spatial..., C].
//
// Visits nodes in execution order and records for values the one with the same content and the channels last, if there
// is one. A convolution reads that form of its input (a Transpose makes it if it is missing) and returns its result in
// it; the original value becomes a Transpose of the new one, which is dead if nothing uses it. Operators that do not
// depend on the order of axes, or that name their axes, follow when one of their operands already has that form.
#include "ops/convolutions/channels_last.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/axis_order.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class ChannelsLastLayout {
 public:
  ChannelsLastLayout(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), builder_(graph_), context_(context) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const ir::Node node = graph_.node(id);
      if (node.op == "Transpose") {
        note_transpose(id, node);
        continue;
      }
      const bool several = node.op == "Split" || node.op == "DynamicQuantizeLinear";  // several results
      if ((several || has_channel_axis(node)) && follows(node)) {
        carry(id, node);
        continue;
      }
      if (node.inputs.empty() || !node.inputs[0].valid() || node.outputs.size() != 1 || !node.outputs[0].valid())
        continue;
      if (std::optional<ir::Node> reader = reading(node)) {
        changed_ = true;
        graph_.replace_node(id, std::move(*reader));
        continue;
      }
      const std::optional<ValueId> result = tried(node);
      if (!result) continue;
      changed_ = true;
      set_last(node.outputs[0], *result);
      graph_.replace_node(id, to_first(*result, node));
    }
    if (!changed_) return graph_;
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    // Folds the transposes of constants in sums and products.
    return fold_constants(std::move(graph_), context_);
  }

 private:
  // Records a Transpose in the graph to either form: the other form of its value is known from here on, and a Transpose
  // back to it is not needed.
  void note_transpose(NodeId id, const ir::Node& node) {
    const std::size_t full = rank(node.inputs[0]);
    const auto perm = node.attributes.find("perm");
    if (full < 3 || perm == node.attributes.end()) return;
    const auto& axes = std::get<std::vector<std::int64_t>>(perm->second);
    if (axes == ops::to_channels_first(full)) set_last(node.outputs[0], node.inputs[0]);
    if (axes != ops::to_channels_last(full) || graph_.is_output(node.outputs[0])) return;
    if (!has_last(node.inputs[0])) return set_last(node.inputs[0], node.outputs[0]);
    changed_ = true;
    graph_.replace_uses(node.outputs[0], last_form(node.inputs[0]));
  }

  // Moves the operands and results of the highest rank, which are feature maps; others have no spatial axes.
  void carry(NodeId id, const ir::Node& node) {
    std::size_t full = 0;
    for (const ValueId input : node.inputs) full = input.valid() ? std::max(full, rank(input)) : full;
    const bool splits = node.op == "Split";
    const char* const name = splits ? "axis" : "channel_axis";
    if (full < 3 || (splits && !is_feature_map(node.inputs[0]))) return;
    const std::int64_t axis =
        ops::normalise_axis(integer_of(node, name, splits ? 0 : 1), static_cast<std::int64_t>(full));
    if (!splits && axis != 1) return;
    ir::Node last = node;
    if (node.op != "DynamicQuantizeLinear") last.attributes[name] = moved_axis(axis, full);
    for (ValueId& input : last.inputs) {
      if (input.valid() && rank(input) == full) input = last_form(input);
    }
    if (!takes(last, last.op, last.inputs)) return;
    std::vector<ir::Node> back;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId old = node.outputs[i];
      if (!old.valid() || rank(old) != full) continue;
      ir::ValueType type = graph_.value(old).type;
      std::rotate(type.dims->begin() + 1, type.dims->begin() + 2, type.dims->end());
      last.outputs[i] = graph_.add_value(graph_.fresh_name(node.op), std::move(type));
      set_last(old, last.outputs[i]);
      ir::Node first = to_first(last.outputs[i], node);
      first.outputs = {old};
      back.push_back(std::move(first));
    }
    changed_ = true;
    graph_.replace_node(id, std::move(last));
    for (ir::Node& first : back) graph_.add_node(std::move(first));
  }

  // The node reading data with the channels last, if its result does not depend on the order of axes.
  std::optional<ir::Node> reading(const ir::Node& node) {
    if (node.op == "tessera::ConvWeightGradient") return weight_gradient(node);
    if (has_trait(node, ops::Trait::reduction)) return reduction_of_space(node);
    return std::nullopt;
  }

  std::optional<ir::Node> weight_gradient(const ir::Node& node) {
    const std::string op = "tessera::ChannelsLastConvWeightGradient";
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      if (graph_.value(input).type.dtype != DType::f32 || rank(input) < 3 || rank(input) > 5) return std::nullopt;
      input = last_form(input);
    }
    if (!takes(node, op, inputs)) return std::nullopt;
    ir::Node last = node;
    last.op = op;
    last.inputs = std::move(inputs);
    return last;
  }

  // A reduction over all spatial axes, and possibly others, that removes them: the remaining axes are in order.
  std::optional<ir::Node> reduction_of_space(const ir::Node& node) {
    if (!has_last(node.inputs[0]) || integer_of(node, "keepdims", 1) != 0) return std::nullopt;
    const std::optional<std::vector<std::int64_t>> axes = moved_axes(node);
    const auto full = static_cast<std::int64_t>(rank(node.inputs[0]));
    if (!axes) return std::nullopt;
    for (std::int64_t axis = 1; axis + 1 < full; ++axis) {
      if (std::ranges::find(*axes, axis) == axes->end()) return std::nullopt;
    }
    ir::Node last = node;
    last.inputs = {last_form(node.inputs[0]), builder_.integers(*axes)};
    return last;
  }

  // The axes of a reduction for data with the channels last, if they are known.
  std::optional<std::vector<std::int64_t>> moved_axes(const ir::Node& node) const {
    const std::size_t full = rank(node.inputs[0]);
    const Tensor* axes = node.inputs.size() > 1 ? graph_.constant(node.inputs[1]) : nullptr;
    if (full < 3 || axes == nullptr || !axes->has_data() || axes->elements() == 0) return std::nullopt;
    std::vector<std::int64_t> moved;
    for (const std::int64_t axis : axes->values<std::int64_t>())
      moved.push_back(moved_axis(ops::normalise_axis(axis, static_cast<std::int64_t>(full)), full));
    return moved;
  }

  // Inference may reject a node that it accepted before, because more is known by now; the error is left to the run.
  std::optional<ValueId> tried(const ir::Node& node) {
    return if_legal([&] { return converted(node); }).value_or(std::nullopt);
  }

  std::optional<ValueId> converted(const ir::Node& node) {
    if (node.op == "Conv") return conv(node, "tessera::ChannelsLastConv");
    if (node.op == "ConvTranspose") return conv(node, "tessera::ChannelsLastConvTranspose");
    if (node.op == "MaxPool") return pool(node, "tessera::ChannelsLastMaxPool");
    if (node.op == "AveragePool") return pool(node, "tessera::ChannelsLastAveragePool");
    if (!follows(node)) return std::nullopt;
    if (node.op == "tessera::After") return unary(node);
    switch (ops::op_of(node).element_wise) {
      case ops::ElementWise::unary:
        return unary(node);
      case ops::ElementWise::to_first:
      case ops::ElementWise::broadcasting:
        return broadcasting(node);
      default:
        break;
    }
    if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") return quantisation(node);
    if (node.op == "com.microsoft::QLinearAdd") return quantised_sum(node);
    if (node.op == "GlobalAveragePool") return global_average(node);
    if (node.op == "Concat") return concat(node);
    if (has_trait(node, ops::Trait::reduction)) return reduction(node);
    if (node.op == "Resize") return resize(node);
    if (node.op == "Slice") return slice(node);
    return std::nullopt;
  }

  // Whether the value's channels-last form comes from a convolution or pooling, possibly with an activation behind it.
  bool is_feature_map(ValueId value) const {
    if (!has_last(value)) return false;
    ValueId last = last_[static_cast<std::size_t>(value.index)];
    while (graph_.value(last).origin == ir::Origin::node) {
      const ir::Node& maker = graph_.node(graph_.value(last).producer);
      if (ops::op_of(maker).element_wise != ops::ElementWise::unary)
        return maker.op.starts_with("tessera::ChannelsLast") || maker.op == "tessera::QuantisedConv";
      last = maker.inputs[0];
    }
    return false;
  }

  std::size_t rank(ValueId value) const {
    const ir::ValueType& type = graph_.value(value).type;
    return type.is_tensor() && type.dims ? type.dims->size() : 0;
  }
  bool has_last(ValueId value) const {
    return value.valid() && static_cast<std::size_t>(value.index) < last_.size() &&
           last_[static_cast<std::size_t>(value.index)].valid();
  }
  bool follows(const ir::Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return has_last(input); });
  }
  void set_last(ValueId value, ValueId last) {
    if (last_.size() <= static_cast<std::size_t>(value.index)) last_.resize(static_cast<std::size_t>(value.index) + 1);
    last_[static_cast<std::size_t>(value.index)] = last;
  }

  // The channels-last form of the value, made by a Transpose if it does not exist yet.
  ValueId last_form(ValueId value) {
    if (!has_last(value)) set_last(value, transposed(value, ops::to_channels_last(rank(value))));
    return last_[static_cast<std::size_t>(value.index)];
  }

  ir::Node permutation(ValueId value, const std::vector<std::int64_t>& axes) {
    const ir::Dims& dims = *graph_.value(value).type.dims;
    if (moves_nothing(dims, axes)) {
      if (const auto target = reshape_target(dims, axes))
        return {"Reshape", "", {value, builder_.integers(*target)}, {}, {}, 0};
    }
    return {"Transpose", "", {value}, {}, {{"perm", axes}}, 0};
  }
  ValueId transposed(ValueId value, const std::vector<std::int64_t>& axes) {
    ir::Node node = permutation(value, axes);
    return builder_.add(node.op, node.inputs, node.attributes);
  }
  // The node that computes the original value from its channels-last form.
  ir::Node to_first(ValueId result, const ir::Node& old) {
    ir::Node node = permutation(result, ops::to_channels_first(rank(result)));
    node.outputs = old.outputs;
    return node;
  }

  std::optional<ValueId> add(const ir::Node& old, std::string op, std::vector<ValueId> inputs,
                             ir::Attributes attributes) {
    const ValueId result = builder_.add(std::move(op), std::move(inputs), std::move(attributes));
    graph_.node(graph_.value(result).producer).name = old.name;
    return result;
  }

  // Whether the device has a kernel for the node: as a composite it would become the original operator between
  // transposes.
  bool takes(const ir::Node& node, std::string op, std::vector<ValueId> inputs) const {
    ir::Node candidate = node;
    candidate.op = std::move(op);
    candidate.inputs = std::move(inputs);
    return context_.keeps_composite && context_.keeps_composite(graph_, candidate);
  }

  std::optional<ValueId> conv(const ir::Node& node, const std::string& op) {
    const ValueId x = node.inputs[0], weights = node.inputs[1];
    // Other element types have no fast kernels anywhere.
    if (graph_.value(x).type.dtype != DType::f32 || rank(x) < 3 || rank(x) > 5 || rank(weights) != rank(x) ||
        !graph_.value(weights).type.shape())
      return std::nullopt;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_form(x);
    if (!takes(node, op, inputs)) return std::nullopt;
    return add(node, op, std::move(inputs), node.attributes);
  }

  std::optional<ValueId> pool(const ir::Node& node, const std::string& op) {
    if (!has_last(node.inputs[0])) return std::nullopt;
    ir::Node plain = node;
    plain.attributes.erase("storage_order");  // of the indices, which nobody asked for
    const std::vector<ValueId> inputs{last_form(node.inputs[0])};
    if (!takes(plain, op, inputs)) return std::nullopt;
    return add(plain, op, inputs, plain.attributes);
  }

  std::optional<ValueId> unary(const ir::Node& node) {
    if (!has_last(node.inputs[0])) return std::nullopt;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_form(inputs[0]);
    return add(node, node.op, inputs, node.attributes);
  }

  // QuantizeLinear and DequantizeLinear with one scale for the whole tensor.
  std::optional<ValueId> quantisation(const ir::Node& node) {
    const ir::ValueType& scale = graph_.value(node.inputs[1]).type;
    if (!scale.dims || !(scale.dims->empty() || (scale.dims->size() == 1 && (*scale.dims)[0] == ir::Dim(1))))
      return std::nullopt;
    return unary(node);
  }

  std::optional<ValueId> quantised_sum(const ir::Node& node) {
    std::vector<ValueId> inputs = node.inputs;
    const std::size_t full = rank(node.outputs[0]);
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
      if (rank(inputs[i]) != full) return std::nullopt;
      inputs[i] = last_form(inputs[i]);
    }
    return add(node, node.op, std::move(inputs), node.attributes);
  }

  std::optional<ValueId> broadcasting(const ir::Node& node) {
    const std::size_t full = rank(node.outputs[0]);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (rank(input) == full) {
        inputs.push_back(last_form(input));
      } else if (const Tensor* constant = graph_.constant(input); constant != nullptr && constant->elements() == 1) {
        inputs.push_back(input);
      } else if (const std::optional<Shape> given = graph_.value(input).type.shape(); given && given->size() < full) {
        // Broadcasting aligns the last axes; once all axes are stated, the channels can be moved to the end.
        std::vector<std::int64_t> shape(full - given->size(), 1);
        shape.insert(shape.end(), given->begin(), given->end());
        inputs.push_back(
            transposed(builder_.add("Reshape", {input, builder_.integers(shape)}), ops::to_channels_last(full)));
      } else {
        return std::nullopt;
      }
    }
    return add(node, node.op, std::move(inputs), node.attributes);
  }

  std::optional<ValueId> global_average(const ir::Node& node) {
    std::vector<std::int64_t> axes;
    for (std::size_t i = 1; i + 1 < rank(node.inputs[0]); ++i) axes.push_back(static_cast<std::int64_t>(i));
    return add(node, "ReduceMean", {last_form(node.inputs[0]), builder_.integers(axes)},
               {{"keepdims", std::int64_t{1}}});
  }

  std::optional<ValueId> concat(const ir::Node& node) {
    const std::size_t full = rank(node.outputs[0]);
    const auto axis = node.attributes.find("axis");
    if (full < 3 || axis == node.attributes.end()) return std::nullopt;
    // Most of the data should have a channels-last form already.
    const auto ready = static_cast<std::size_t>(
        std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return has_last(input); }));
    if (2 * ready < node.inputs.size()) return std::nullopt;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(last_form(input));
    const auto old = ops::normalise_axis(std::get<std::int64_t>(axis->second), static_cast<std::int64_t>(full));
    return add(node, "Concat", std::move(inputs), {{"axis", moved_axis(old, full)}});
  }

  // Reductions over known axes, which stay as axes of one element.
  std::optional<ValueId> reduction(const ir::Node& node) {
    const std::optional<std::vector<std::int64_t>> axes = moved_axes(node);
    if (!axes || integer_of(node, "keepdims", 1) == 0) return std::nullopt;
    return add(node, node.op, {last_form(node.inputs[0]), builder_.integers(*axes)}, node.attributes);
  }

  // Slices of feature maps only: for other values that exist in both layouts, users of the result may want the original
  // one.
  std::optional<ValueId> slice(const ir::Node& node) {
    const std::optional<ops::SliceRequest> request = slice_request_of(graph_, node);
    if (!request || !is_feature_map(node.inputs[0])) return std::nullopt;
    std::vector<std::int64_t> axes;
    for (const std::int64_t axis : request->axes) axes.push_back(moved_axis(axis, rank(node.inputs[0])));
    return add(node, "Slice",
               {last_form(node.inputs[0]), builder_.integers(request->starts), builder_.integers(request->ends),
                builder_.integers(axes), builder_.integers(request->steps)},
               {});
  }

  // Resizes with scales or sizes for all axes, which must be constants.
  std::optional<ValueId> resize(const ir::Node& node) {
    const std::size_t full = rank(node.inputs[0]);
    if (full != 4 || node.attributes.contains("axes") || (node.inputs.size() > 1 && node.inputs[1].valid()))
      return std::nullopt;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_form(inputs[0]);
    for (std::size_t i = 2; i < inputs.size(); ++i) {
      const Tensor* list = graph_.constant(inputs[i]);
      if (!inputs[i].valid() || (list != nullptr && list->elements() == 0)) continue;
      if (list == nullptr || list->elements() != static_cast<std::int64_t>(full)) return std::nullopt;
      inputs[i] = builder_.add("Gather", {inputs[i], builder_.integers(ops::to_channels_last(full))});
    }
    return add(node, "Resize", std::move(inputs), node.attributes);
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const PassContext& context_;
  std::vector<ValueId> last_;  // by value; invalid: there is none
  bool changed_ = false;
};

}  // namespace

ir::Graph channels_last(ir::Graph graph, const PassContext& context) {
  return ChannelsLastLayout(std::move(graph), context).run();
}

}  // namespace tessera::passes
