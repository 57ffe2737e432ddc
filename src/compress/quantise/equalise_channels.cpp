#include "compress/quantise/equalise_channels.h"

#include <algorithm>
#include <cmath>

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;

class Equaliser {
 public:
  Equaliser(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
            const std::map<ValueId, ChannelStatistics>& channels, EqualiseScope scope)
      : graph_(graph), layers_(layers), channels_(channels), scope_(scope), uses_(graph.compute_uses()) {}

  std::optional<ir::Graph> run() {
    bool any = false;
    for (const auto& [value, statistics] : channels_) {
      const bool done =
          equalise(value, statistics) || (scope_ == EqualiseScope::normalised && equalise_products(value, statistics));
      any = any || done;
    }
    if (!any) return std::nullopt;
    graph_.sort_topologically();
    return std::move(graph_);
  }

 private:
  // The layer that makes the value, or null.
  const QuantisableLayer* maker(ValueId value) const {
    const auto alone = [&](ValueId id) {
      return uses_[static_cast<std::size_t>(id.index)].size() == 1 && !graph_.is_output(id);
    };
    for (int i = 0; i < 3; ++i) {
      if (graph_.value(value).origin != ir::Origin::node) return nullptr;
      const NodeId id = graph_.value(value).producer;
      const ir::Node& node = graph_.node(id);
      for (const QuantisableLayer& layer : layers_) {
        if (layer.node == id && layer.kind != LayerKind::table && !layer.bias_add.valid()) return &layer;
        if (layer.bias_add == id) return &layer;
      }
      if (node.op != "Relu" || !alone(node.inputs[0])) return nullptr;
      value = node.inputs[0];
    }
    return nullptr;
  }

  std::vector<const QuantisableLayer*> readers(ValueId value) const {
    std::vector<const QuantisableLayer*> found;
    for (const NodeId user : uses_[static_cast<std::size_t>(value.index)]) {
      const auto layer = std::ranges::find(layers_, user, &QuantisableLayer::node);
      if (layer == layers_.end() || layer->data != value || layer->kind == LayerKind::table) return {};
      found.push_back(&*layer);
    }
    return found;
  }

  // The input channel of an element of the weights.
  std::int64_t input_of(const QuantisableLayer& layer, const Shape& shape, std::int64_t element,
                        std::int64_t channels) const {
    if (layer.kind == LayerKind::product) return layer.axis == 1 ? element / shape[1] : element % shape[1];
    const std::int64_t inputs = shape[1], window = element_count({shape.begin() + 2, shape.end()}),
                       output = element / (inputs * window), groups = channels / inputs;
    return output / (shape[0] / groups) * inputs + element / window % inputs;
  }

  bool equalise(ValueId value, const ChannelStatistics& statistics) {
    if (graph_.is_output(value)) return false;
    const QuantisableLayer* from = maker(value);
    const std::vector<const QuantisableLayer*> to = readers(value);
    const auto channels = static_cast<std::int64_t>(statistics.largest.size());
    if (from == nullptr || to.empty() || shared(from->weight)) return false;
    if (from->bias.valid() && shared(from->bias)) return false;
    const Shape& made = graph_.constant(from->weight)->shape();
    if (made[static_cast<std::size_t>(from->axis)] != channels) return false;
    const std::optional<std::vector<float>> largest = largest_weights(to, channels);
    if (!largest) return false;
    const std::vector<float> by = factors(statistics.largest, *largest);
    divide(*from, by);
    multiply(to, by);
    return true;
  }

  // The largest magnitude among the weights of each input channel. Nothing if a layer has another number of channels or
  // shares its weights.
  std::optional<std::vector<float>> largest_weights(const std::vector<const QuantisableLayer*>& layers,
                                                    std::int64_t channels) const {
    std::vector<float> largest(static_cast<std::size_t>(channels), 0.0f);
    for (const QuantisableLayer* layer : layers) {
      const Tensor& weights = *graph_.constant(layer->weight);
      const bool fits = layer->kind == LayerKind::product
                            ? weights.shape()[static_cast<std::size_t>(1 - layer->axis)] == channels
                            : channels % weights.shape()[1] == 0;
      if (!fits || shared(layer->weight)) return std::nullopt;
      for (std::int64_t i = 0; i < weights.elements(); ++i) {
        float& each = largest[static_cast<std::size_t>(input_of(*layer, weights.shape(), i, channels))];
        each = std::max(each, std::abs(weights.data<float>()[i]));
      }
    }
    return largest;
  }

  // --- in front of products ---

  bool equalise_products(ValueId value, const ChannelStatistics& statistics) {
    if (graph_.value(value).origin != ir::Origin::node) return false;
    const auto channels = static_cast<std::int64_t>(statistics.largest.size());
    std::vector<const QuantisableLayer*> to;
    for (const QuantisableLayer& layer : layers_) {
      if (layer.kind != LayerKind::table && layer.data == value) to.push_back(&layer);
    }
    const bool products = !to.empty() && std::ranges::all_of(to, [](const QuantisableLayer* layer) {
      return layer->kind == LayerKind::product;
    });
    if (!products) return false;
    const std::optional<std::vector<float>> largest = largest_weights(to, channels);
    if (!largest) return false;
    const std::vector<float> by = factors(statistics.largest, *largest);
    const bool alone = !graph_.is_output(value) && uses_[static_cast<std::size_t>(value.index)].size() == to.size();
    if (!alone || !absorb(graph_.value(value).producer, by)) put_division(value, to, by);
    multiply(to, by);
    return true;
  }

  bool is_vector(ValueId value, std::size_t channels) const {
    const Tensor* tensor = graph_.constant(value);
    return tensor != nullptr && tensor->dtype() == DType::f32 && tensor->has_data() &&
           tensor->shape() == Shape{static_cast<std::int64_t>(channels)};
  }

  // The index of the node's input that is a constant vector, or -1.
  int vector_input(const ir::Node& node, std::size_t channels) const {
    for (int i = 0; i < 2; ++i) {
      if (is_vector(node.inputs[static_cast<std::size_t>(i)], channels)) return i;
    }
    return -1;
  }

  // Divides the node's result per channel by changing its constants. Returns false if it has none that allow it.
  bool absorb(NodeId id, const std::vector<float>& by) {
    const ir::Node node = graph_.node(id);
    if (node.op == "LayerNormalization" || node.op == "RMSNormalization") {
      const bool shift = node.inputs.size() > 2 && node.inputs[2].valid();
      if (!is_vector(node.inputs[1], by.size()) || (shift && !is_vector(node.inputs[2], by.size()))) return false;
      divide_input(id, 1, by);
      if (shift) divide_input(id, 2, by);
      return true;
    }
    if (node.op != "Mul" && node.op != "Add") return false;
    const int vector = vector_input(node, by.size());
    if (vector < 0) return false;
    if (node.op == "Add") {
      const ValueId other = node.inputs[static_cast<std::size_t>(1 - vector)];
      const bool alone = graph_.value(other).origin == ir::Origin::node && !graph_.is_output(other) &&
                         uses_[static_cast<std::size_t>(other.index)].size() == 1;
      if (!alone) return false;
      const NodeId before = graph_.value(other).producer;
      const std::string& op = graph_.node(before).op;
      if ((op != "Mul" && !op.ends_with("Normalization")) || !absorb(before, by)) return false;
    }
    divide_input(id, static_cast<std::size_t>(vector), by);
    return true;
  }

  // Gives the node a constant of its own, divided by the factors.
  void divide_input(NodeId id, std::size_t input, const std::vector<float>& by) {
    Tensor vector = graph_.constant(graph_.node(id).inputs[input])->clone();
    for (std::size_t c = 0; c < by.size(); ++c) vector.mutable_data<float>()[c] /= by[c];
    const ValueId constant = graph_.add_constant(std::move(vector));
    graph_.node(id).inputs[input] = constant;
  }

  // Lets the layers read the value divided by the factors, and all other readers the original value.
  void put_division(ValueId value, const std::vector<const QuantisableLayer*>& to, const std::vector<float>& by) {
    Tensor inverse(DType::f32, {static_cast<std::int64_t>(by.size())});
    std::ranges::transform(by, inverse.mutable_data<float>(), [](float factor) { return 1 / factor; });
    const ValueId before = graph_.add_value(graph_.fresh_name(graph_.value(value).name), graph_.value(value).type);
    const NodeId producer = graph_.value(value).producer;
    ir::Node node = graph_.node(producer);
    std::ranges::replace(node.outputs, value, before);
    graph_.replace_node(producer, std::move(node));
    for (const NodeId user : uses_[static_cast<std::size_t>(value.index)]) {
      const bool layer = std::ranges::any_of(to, [&](const QuantisableLayer* each) { return each->node == user; });
      if (!layer) std::ranges::replace(graph_.node(user).inputs, value, before);
    }
    if (graph_.is_output(value)) {
      std::vector<ValueId> outputs = graph_.outputs();
      std::ranges::replace(outputs, value, before);
      std::swap(graph_.value(value).name, graph_.value(before).name);  // outputs keep their names
      graph_.set_outputs(std::move(outputs));
    }
    graph_.add_node({"Mul", "", {before, graph_.add_constant(std::move(inverse))}, {value}, {}, 0});
  }

  bool shared(ValueId constant) const { return uses_[static_cast<std::size_t>(constant.index)].size() != 1; }

  // The factor sqrt(activation / weight) of each channel, relative to their geometric mean and within bounds.
  static std::vector<float> factors(const std::vector<float>& activations, const std::vector<float>& weights) {
    constexpr float kMost = 64;
    std::vector<float> result(activations.size(), 1.0f);
    double logarithms = 0;
    std::int64_t count = 0;
    for (std::size_t c = 0; c < result.size(); ++c) {
      if (!(activations[c] > 0) || !(weights[c] > 0)) continue;
      result[c] = std::sqrt(activations[c] / weights[c]);
      logarithms += std::log(static_cast<double>(result[c]));
      ++count;
    }
    const auto mean = static_cast<float>(std::exp(logarithms / static_cast<double>(std::max<std::int64_t>(1, count))));
    for (std::size_t c = 0; c < result.size(); ++c) {
      const bool counted = activations[c] > 0 && weights[c] > 0;
      result[c] = counted ? std::clamp(result[c] / mean, 1 / kMost, kMost) : 1.0f;
    }
    return result;
  }

  // Divides the value that the layer computes, by changing its weights and bias.
  void divide(const QuantisableLayer& from, const std::vector<float>& by) {
    Tensor weights = graph_.constant(from.weight)->clone();
    const AxisSplit split = split_at(weights.shape(), from.axis);
    for (std::int64_t i = 0; i < weights.elements(); ++i)
      weights.mutable_data<float>()[i] /= by[static_cast<std::size_t>(i / split.inner % split.axis)];
    graph_.become_constant(from.weight, std::move(weights));  // keeps its handle
    if (!from.bias.valid()) return;
    Tensor bias = graph_.constant(from.bias)->clone();
    for (std::size_t c = 0; c < by.size(); ++c) bias.mutable_data<float>()[c] /= by[c];
    graph_.become_constant(from.bias, std::move(bias));
  }

  // Multiplies the value that the layers read, by changing their weights.
  void multiply(const std::vector<const QuantisableLayer*>& to, const std::vector<float>& by) {
    const auto channels = static_cast<std::int64_t>(by.size());
    for (const QuantisableLayer* layer : to) {
      Tensor read = graph_.constant(layer->weight)->clone();
      for (std::int64_t i = 0; i < read.elements(); ++i)
        read.mutable_data<float>()[i] *= by[static_cast<std::size_t>(input_of(*layer, read.shape(), i, channels))];
      graph_.become_constant(layer->weight, std::move(read));
    }
  }

  ir::Graph graph_;
  const std::vector<QuantisableLayer>& layers_;
  const std::map<ValueId, ChannelStatistics>& channels_;
  EqualiseScope scope_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

std::optional<ir::Graph> equalise_channels(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::map<ValueId, ChannelStatistics>& channels, EqualiseScope scope) {
  return Equaliser(graph, layers, channels, scope).run();
}

}  // namespace tessera::compress
