// Folds per-channel operators behind a convolution or a product with constant weights into its weights and bias:
// BatchNormalization, and sums and products with one constant per channel (or one for all). Behind a Concat of such
// layers they are folded into each of the layers.
#include <algorithm>
#include <optional>

#include "ops/core/builder.h"
#include "ops/core/shape_arguments.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/channel_map.h"
#include "passes/patterns/linear_weights.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The per-channel operators that follow a value, up to the first value with another use.
struct Followers {
  std::vector<NodeId> nodes;
  ChannelMap map;
};

// A layer with constant weights, and the scale and shift that it applies itself.
struct Layer {
  LinearWeights weights;
  ChannelMap map;
  std::size_t axis = 0, rank = 0;
};

class ChannelArithmeticFolder {
 public:
  ChannelArithmeticFolder(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), builder_(graph_), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph fold() {
    return rewritten([&](NodeId id) {
      if (const std::optional<Layer> layer = layer_of(graph_.node(id))) fold_into(id, *layer);
    });
  }

  ir::Graph distribute() {
    return rewritten([&](NodeId id) {
      if (graph_.node(id).op == "Concat") distribute(id);
    });
  }

  bool changed() const { return changed_; }

 private:
  ir::Graph rewritten(const std::function<void(NodeId)>& visit) {
    const bool changed = rewrite_each(graph_, [&](NodeId id) {
      visit(id);
      return std::exchange(changed_, false);
    });
    changed_ = changed;
    return std::move(graph_);
  }

  bool used_once(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    return index < uses_.size() && uses_[index].size() == 1 && !is_result(graph_, value);
  }

  Followers followers(ValueId result, std::size_t axis, std::int64_t channels) const {
    Followers found{{}, ChannelMap::identity(channels)};
    while (used_once(result)) {
      const NodeId id = uses_[static_cast<std::size_t>(result.index)][0];
      const std::optional<ChannelMap> map = channel_map(graph_, graph_.node(id), result, axis, channels);
      if (!map) break;
      found.map.then(*map);
      found.nodes.push_back(id);
      result = graph_.node(id).outputs[0];
    }
    return found;
  }

  std::optional<Layer> layer_of(const ir::Node& node) const {
    const std::optional<LinearWeights> weights = linear_weights(graph_, node);
    if (!weights || dims_of(graph_, node.outputs[0]) == nullptr) return std::nullopt;
    const std::size_t rank = dims_of(graph_, node.outputs[0])->size();
    if (rank < 2) return std::nullopt;
    Layer layer{*weights, ChannelMap::identity(weights->outputs), channel_axis(node, rank), rank};
    if (is_product(node) && !used_once(node.inputs[1])) return std::nullopt;
    double beta = 1;
    if (node.op == "Gemm") {
      const ops::AttributeReader reader(node, ops::op_of(node));
      std::ranges::fill(layer.map.scale, reader.real("alpha"));
      beta = reader.real("beta");
    }
    if (node.inputs.size() < 3 || !node.inputs[2].valid()) return layer;
    const Tensor* bias = graph_.constant(node.inputs[2]);
    if (bias == nullptr || !bias->has_data() || bias->dtype() != DType::f32) return std::nullopt;
    const std::span<const float> values = bias->values<float>();
    const bool one_each =
        !bias->shape().empty() && bias->shape().back() == weights->outputs && bias->elements() == weights->outputs;
    if (values.size() != 1 && !one_each) return std::nullopt;
    for (std::size_t c = 0; c < layer.map.shift.size(); ++c)
      layer.map.shift[c] = beta * values[values.size() == 1 ? 0 : c];
    return layer;
  }

  void fold_into(NodeId id, const Layer& layer) {
    const ir::Node linear = graph_.node(id);
    const Followers after = followers(linear.outputs[0], layer.axis, layer.weights.outputs);
    // A product that cannot have a bias keeps one Add behind it.
    const bool is_plain = linear.op == "MatMul";
    if (after.nodes.empty() || (is_plain && after.nodes.size() == 1 && !after.map.scales())) return;
    ChannelMap map = layer.map;
    map.then(after.map);
    if (!map.is_finite()) return;
    ir::Node node = linear;
    node.attributes.erase("alpha");
    node.attributes.erase("beta");
    if (map.scales()) {
      std::optional<Tensor> scaled =
          layer.weights.scaled(std::vector<double>(static_cast<std::size_t>(layer.weights.inputs), 1.0), map.scale);
      if (!scaled || !charge(context_, *scaled)) return;
      node.inputs[1] = graph_.add_constant(std::move(*scaled));
    }
    changed_ = true;
    node.outputs = graph_.node(after.nodes.back()).outputs;
    if (is_plain && map.shifts()) {
      const ValueId product = builder_.add(node.op, node.inputs);
      graph_.node(graph_.value(product).producer).name = linear.name;
      return put_operator(graph_, after.nodes.back(), "Add",
                          {product, graph_.add_constant(channel_constant(map.shift, layer.axis, layer.rank))});
    }
    if (!is_plain) {
      node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
      node.inputs[2] = graph_.add_constant(channel_constant(map.shift, 0, 1));
    }
    // Replaces the last follower; the nodes before it are dead.
    graph_.replace_node(after.nodes.back(), std::move(node));
  }

  // Applies the per-channel operators behind a Concat of layers to each of the layers instead.
  void distribute(NodeId id) {
    const ir::Node concat = graph_.node(id);
    const ir::Dims* dims = dims_of(graph_, concat.outputs[0]);
    if (dims == nullptr || dims->size() < 2) return;
    const auto axis = static_cast<std::size_t>(ops::normalise_axis(
        ops::AttributeReader(concat, ops::op_of(concat)).integer("axis"), static_cast<std::int64_t>(dims->size())));
    const std::size_t rank = dims->size();
    std::vector<std::int64_t> channels;
    std::int64_t total = 0;
    for (const ValueId input : concat.inputs) {
      const ir::ValueInfo& value = graph_.value(input);
      const std::optional<Layer> layer =
          value.origin == ir::Origin::node && used_once(input) ? layer_of(graph_.node(value.producer)) : std::nullopt;
      if (!layer || layer->axis != axis) return;
      channels.push_back(layer->weights.outputs);
      total += channels.back();
    }
    const Followers after = followers(concat.outputs[0], axis, total);
    if (after.nodes.empty() || !after.map.is_finite()) return;
    std::vector<ValueId> parts;
    std::ptrdiff_t first = 0;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      const std::ptrdiff_t last = first + static_cast<std::ptrdiff_t>(channels[i]);
      const ChannelMap own{{after.map.scale.begin() + first, after.map.scale.begin() + last},
                           {after.map.shift.begin() + first, after.map.shift.begin() + last}};
      ValueId part = concat.inputs[i];
      if (own.scales()) part = builder_.add("Mul", {part, builder_.constant(channel_constant(own.scale, axis, rank))});
      if (own.shifts()) part = builder_.add("Add", {part, builder_.constant(channel_constant(own.shift, axis, rank))});
      parts.push_back(part);
      first = last;
    }
    put_operator(graph_, after.nodes.back(), "Concat", std::move(parts), concat.attributes);
    changed_ = true;
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
  bool changed_ = false;
};

}  // namespace

ir::Graph fold_channel_arithmetic(ir::Graph graph, const PassContext& context) {
  ChannelArithmeticFolder distributor(ChannelArithmeticFolder(std::move(graph), context).fold(), context);
  graph = distributor.distribute();
  return distributor.changed() ? ChannelArithmeticFolder(std::move(graph), context).fold() : graph;
}

}  // namespace tessera::passes
