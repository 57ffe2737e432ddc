// Moves per-channel scales and shifts towards the convolution or product behind them and folds them into its constant
// weights: across Relu and MaxPool where scales are positive, across averages, Concat, Transpose and views. A shift
// stops where it would change padding or move the kink of an activation: the remainder of a scale and a shift there is
// one Add.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/channel_map.h"
#include "passes/patterns/linear_weights.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;

// The most operators that arithmetic moves across.
constexpr int kLongestWay = 32;

// Restrictions imposed by the operators that a scale and a shift must cross on the way to the layer.
struct Limits {
  bool positive = false;   // only scales above 0
  bool shiftless = false;  // no shifts
  int way = 0;

  Limits with(Limits other) const { return {positive || other.positive, shiftless || other.shiftless, way + 1}; }
};

// A value that is a per-channel affine map of another value.
struct Mapped {
  ValueId value;
  ChannelMap map;
  bool is_plain() const { return !map.scales() && !map.shifts(); }
};

class ChannelArithmeticMover {
 public:
  ChannelArithmeticMover(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), builder_(graph_), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    const std::size_t nodes = graph_.node_count();
    bool changed = false;
    for (const NodeId id : order) changed = absorb(id) || changed;
    // Nodes made for a layer that could not absorb the arithmetic are dead, but would count as uses.
    if (!changed && graph_.node_count() == nodes) return std::move(graph_);
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  // --- the layer that takes it
  bool absorb(NodeId id) {
    const ir::Node linear = graph_.node(id);
    const std::optional<LinearWeights> weights = linear_weights(graph_, linear);
    const Dims* x = weights ? dims_of(graph_, linear.inputs[0]) : nullptr;
    if (x == nullptr || x->size() < 2) return false;
    if (is_product(linear) &&
        (is_turned(linear) || uses_[static_cast<std::size_t>(linear.inputs[1].index)].size() != 1))
      return false;
    const std::size_t rank = x->size(), axis = channel_axis(linear, rank);
    if (!(*x)[axis].surely_equals(weights->inputs)) return false;
    const Mapped found = strip(linear.inputs[0], axis, weights->inputs, {false, !takes_shift(linear)});
    if (found.is_plain() || !found.map.is_finite()) return false;
    const ChannelMap outputs{std::vector<double>(static_cast<std::size_t>(weights->outputs), 1.0),
                             weights->applied(found.map.shift)};
    if (!outputs.is_finite()) return false;
    ir::Node node = linear;
    node.inputs[0] = found.value;
    if (found.map.scales()) {
      std::optional<Tensor> scaled = weights->scaled(found.map.scale, outputs.scale);
      if (!scaled || !charge(context_, *scaled)) return false;
      node.inputs[1] = graph_.add_constant(std::move(*scaled));
    }
    place(id, std::move(node), outputs, rank);
    return true;
  }

  bool is_turned(const ir::Node& linear) const {
    return linear.op == "Gemm" && ops::AttributeReader(linear, ops::op_of(linear)).integer("transA") != 0;
  }

  // Whether a shift of its data is a constant shift of its result: all windows lie inside the data, and the bias is
  // constant.
  bool takes_shift(const ir::Node& linear) const {
    const ops::AttributeReader reader(linear, ops::op_of(linear));
    if (linear.inputs.size() > 2 && linear.inputs[2].valid() && bias_of(linear) == nullptr) return false;
    if (linear.op == "Gemm") return reader.real("alpha") == 1 && reader.real("beta") == 1;
    return linear.op == "MatMul" || (linear.op == "Conv" && is_unpadded(reader));
  }
  static bool is_unpadded(const ops::AttributeReader& reader) {
    const std::vector<std::int64_t> pads = reader.integers_or_empty("pads");
    return reader.text("auto_pad") == "VALID" || (reader.text("auto_pad") == "NOTSET" &&
                                                  std::ranges::all_of(pads, [](std::int64_t pad) { return pad == 0; }));
  }
  // A constant with one number per output.
  const Tensor* bias_of(const ir::Node& linear) const {
    const Tensor* bias = graph_.constant(linear.inputs[2]);
    const std::optional<LinearWeights> weights = linear_weights(graph_, linear);
    return bias != nullptr && bias->has_data() && bias->dtype() == DType::f32 &&
                   bias->shape() == Shape{weights->outputs}
               ? bias
               : nullptr;
  }

  // Places the layer in its new form, with the change of its outputs by the shift of its inputs.
  void place(NodeId id, ir::Node node, const ChannelMap& outputs, std::size_t rank) {
    if (!outputs.shifts()) return graph_.replace_node(id, std::move(node));
    if (node.op == "MatMul") {
      const ValueId product = builder_.add(node.op, node.inputs);
      graph_.node(graph_.value(product).producer).name = node.name;
      return put_operator(graph_, id, "Add",
                          {product, builder_.constant(channel_constant(outputs.shift, rank - 1, rank))});
    }
    std::vector<double> sum = outputs.shift;
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2].valid();
    for (std::size_t i = 0; has_bias && i < sum.size(); ++i)
      sum[i] += graph_.constant(node.inputs[2])->data<float>()[i];
    node.inputs.resize(3);
    node.inputs[2] = builder_.constant(channel_constant(sum, 0, 1));
    graph_.replace_node(id, std::move(node));
  }

  // --- the way to it
  // The node that produces a value with a single user.
  const ir::Node* way_to(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    if (index >= uses_.size() || uses_[index].size() != 1 || is_result(graph_, value) ||
        graph_.value(value).origin != ir::Origin::node)
      return nullptr;
    const ir::Node& node = graph_.node(graph_.value(value).producer);
    return graph_.value(value).type.dtype == DType::f32 && dims_of(graph_, value) != nullptr &&
                   node.outputs.size() == 1 && !node.op.empty()
               ? &node
               : nullptr;
  }

  // The value as an affine map of another value, within the limits; `channels` lie along its `axis`. Adds the nodes
  // between the other value and the result.
  Mapped strip(ValueId value, std::size_t axis, std::int64_t channels, Limits limits) {
    const Mapped as_it_is{value, ChannelMap::identity(channels)};
    if (way_to(value) == nullptr || limits.way == kLongestWay) return as_it_is;
    const ir::Node node = *way_to(value);
    if (const std::optional<Limits> own = limits_of(node, axis))
      return across(node, value, strip(node.inputs[0], axis, channels, limits.with(*own)));
    if (node.op == "Transpose") {
      const std::size_t rank = dims_of(graph_, value)->size();
      return across(
          node, value,
          strip(node.inputs[0], static_cast<std::size_t>(permutation_of(node, rank)[axis]), channels, limits.with({})));
    }
    if (node.op == "Concat") return across_concat(node, value, axis, channels, limits.with({}));
    if (node.op == "Reshape" || node.op == "Flatten" || node.op == "Squeeze")
      return across_view(node, value, axis, channels, limits.with({}));
    return arithmetic(value, axis, channels, limits);
  }

  // The restrictions of an operator whose first operand is the data and that keeps channels apart along `axis`; nothing
  // if scales and shifts cannot cross it.
  std::optional<Limits> limits_of(const ir::Node& node, std::size_t axis) const {
    if (has_trait(node, ops::Trait::homogeneous)) return Limits{true, true};
    if (node.op == "GlobalMaxPool" || node.op == "MaxPool")
      return axis == 1 ? std::optional(Limits{true, false}) : std::nullopt;
    if (node.op == "GlobalAveragePool") return axis == 1 ? std::optional(Limits{}) : std::nullopt;
    if (node.op == "AveragePool") {
      const ops::AttributeReader reader(node, ops::op_of(node));
      if (axis != 1 || reader.integer("ceil_mode") != 0) return std::nullopt;
      return Limits{false, !is_unpadded(reader) && (reader.integer("count_include_pad") != 0 || may_miss(reader))};
    }
    if (node.op == "ReduceMean") {
      const auto axes = reduced_axes(graph_, node);
      return axes && std::ranges::all_of(*axes,
                                         [&](std::int64_t each) { return each > static_cast<std::int64_t>(axis); })
                 ? std::optional(Limits{})
                 : std::nullopt;
    }
    return std::nullopt;
  }

  // Whether a window may lie entirely in padding: its mean is 0 there, whatever the data.
  static bool may_miss(const ops::AttributeReader& pool) {
    const std::vector<std::int64_t> kernel = pool.integers("kernel_shape"), pads = pool.integers_or_empty("pads"),
                                    dilations = pool.integers_or_empty("dilations");
    if (!std::ranges::all_of(dilations, [](std::int64_t dilation) { return dilation == 1; })) return true;
    for (std::size_t i = 0; i < pads.size(); ++i) {
      if (pads[i] >= kernel[i % kernel.size()]) return true;
    }
    return false;
  }

  // Rebuilds the node that produces `value` on its mapped operand.
  Mapped across(const ir::Node& node, ValueId value, Mapped operand) {
    if (operand.is_plain()) return {value, std::move(operand.map)};
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = operand.value;
    return {add(node, std::move(inputs)), std::move(operand.map)};
  }
  ValueId add(const ir::Node& node, std::vector<ValueId> inputs) {
    const ValueId value = builder_.add(node.op, std::move(inputs), node.attributes);
    graph_.node(graph_.value(value).producer).name = node.name;
    return value;
  }

  Mapped across_concat(const ir::Node& node, ValueId value, std::size_t axis, std::int64_t channels, Limits limits) {
    const Mapped as_it_is{value, ChannelMap::identity(channels)};
    const auto rank = static_cast<std::int64_t>(dims_of(graph_, value)->size());
    if (ops::normalise_axis(ops::AttributeReader(node, ops::op_of(node)).integer("axis"), rank) !=
        static_cast<std::int64_t>(axis))
      return as_it_is;
    const auto has_channels = [&](ValueId input) {
      return dims_of(graph_, input) != nullptr && (*dims_of(graph_, input))[axis].is_known();
    };
    if (!std::ranges::all_of(node.inputs, has_channels)) return as_it_is;
    std::vector<ValueId> parts;
    ChannelMap joined;
    for (const ValueId input : node.inputs) {
      const Mapped part = strip(input, axis, (*dims_of(graph_, input))[axis].value(), limits);
      parts.push_back(part.value);
      joined.scale.insert(joined.scale.end(), part.map.scale.begin(), part.map.scale.end());
      joined.shift.insert(joined.shift.end(), part.map.shift.begin(), part.map.shift.end());
    }
    if (!joined.scales() && !joined.shifts()) return as_it_is;
    return {add(node, std::move(parts)), std::move(joined)};
  }

  // The last axis of the value merges all axes of its operand from some axis on: [N, C, H, W] as [N, C · H · W].
  Mapped across_view(const ir::Node& node, ValueId value, std::size_t axis, std::int64_t channels, Limits limits) {
    const Mapped as_it_is{value, ChannelMap::identity(channels)};
    const Dims *from = dims_of(graph_, node.inputs[0]), *to = dims_of(graph_, value);
    if (from == nullptr || to->size() != axis + 1 || from->size() <= axis || !(*from)[axis].is_known() ||
        (*from)[axis].value() < 1 || channels % (*from)[axis].value() != 0)
      return as_it_is;
    const auto ends = static_cast<std::ptrdiff_t>(axis);
    if (!surely_equal({from->begin(), from->begin() + ends}, {to->begin(), to->begin() + ends}) ||
        !ir::product({from->begin() + ends, from->end()}).surely_equals(channels))
      return as_it_is;
    const std::int64_t outer = (*from)[axis].value(), inner = channels / outer;
    Mapped operand = strip(node.inputs[0], axis, outer, limits);
    ChannelMap wide;
    for (std::int64_t c = 0; c < channels; ++c) {
      wide.scale.push_back(operand.map.scale[static_cast<std::size_t>(c / inner)]);
      wide.shift.push_back(operand.map.shift[static_cast<std::size_t>(c / inner)]);
    }
    operand.map = std::move(wide);
    return across(node, value, std::move(operand));
  }

  // --- the arithmetic
  Mapped arithmetic(ValueId value, std::size_t axis, std::int64_t channels, Limits limits) {
    const Mapped as_it_is{value, ChannelMap::identity(channels)};
    std::vector<ChannelMap> maps;
    ValueId x = value;
    bool normalises = false;
    for (const ir::Node* node = way_to(x); node != nullptr && maps.size() < kLongestWay; node = way_to(x)) {
      std::optional<ChannelMap> map;
      for (const ValueId input : node->inputs) {
        if (map || !input.valid() || graph_.is_constant(input) || !same_dims(graph_, input, x) ||
            !(*dims_of(graph_, x))[axis].surely_equals(channels))
          continue;
        map = channel_map(graph_, *node, input, axis, channels);
        if (map) x = input;
      }
      if (!map) break;
      normalises = normalises || node->op == "BatchNormalization";
      maps.push_back(std::move(*map));
    }
    ChannelMap total = ChannelMap::identity(channels);
    for (auto map = maps.rbegin(); map != maps.rend(); ++map) total.then(*map);
    if (maps.empty() || !total.is_finite() ||
        (limits.positive && std::ranges::any_of(total.scale, [](double scale) { return !(scale > 0); })))
      return as_it_is;
    if (!limits.shiftless || !total.shifts()) {
      Mapped inner = strip(x, axis, channels, limits.with({}));
      inner.map.then(total);
      return inner;
    }
    // scale x + shift = scale (x + shift / scale): the sum stays, and must be cheaper than the present arithmetic.
    if (!total.scales() || (normalises && maps.size() == 1 && channels < kManyChannels)) return as_it_is;
    ChannelMap rest = ChannelMap::identity(channels);
    for (std::size_t c = 0; c < total.scale.size(); ++c)
      rest.shift[c] = std::exchange(total.shift[c], 0) / total.scale[c];
    if (!rest.is_finite()) return as_it_is;
    return {builder_.add("Add", {x, builder_.constant(channel_constant(rest.shift, axis, dims_of(graph_, x)->size()))}),
            std::move(total)};
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph move_channel_arithmetic(ir::Graph graph, const PassContext& context) {
  return ChannelArithmeticMover(std::move(graph), context).run();
}

}  // namespace tessera::passes
