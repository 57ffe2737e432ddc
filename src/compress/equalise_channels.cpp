#include "compress/equalise_channels.h"

#include <algorithm>
#include <cmath>

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;

class Equaliser {
 public:
  Equaliser(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
            const std::map<ValueId, ChannelStatistics>& channels)
      : graph_(graph), layers_(layers), channels_(channels), uses_(graph.compute_uses()) {}

  std::optional<ir::Graph> run() {
    bool any = false;
    for (const auto& [value, statistics] : channels_) any = equalise(value, statistics) || any;
    return any ? std::optional(std::move(graph_)) : std::nullopt;
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

  // Index of the input channel for each element of the weights.
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
    std::vector<float> largest(static_cast<std::size_t>(channels), 0.0f);
    for (const QuantisableLayer* layer : to) {
      const Tensor& weights = *graph_.constant(layer->weight);
      const bool fits = layer->kind == LayerKind::product
                            ? weights.shape()[static_cast<std::size_t>(1 - layer->axis)] == channels
                            : channels % weights.shape()[1] == 0;
      if (!fits || shared(layer->weight)) return false;
      for (std::int64_t i = 0; i < weights.elements(); ++i) {
        float& each = largest[static_cast<std::size_t>(input_of(*layer, weights.shape(), i, channels))];
        each = std::max(each, std::abs(weights.data<float>()[i]));
      }
    }
    scale(*from, to, factors(statistics.largest, largest));
    return true;
  }

  bool shared(ValueId constant) const { return uses_[static_cast<std::size_t>(constant.index)].size() != 1; }

  // sqrt(activation / weight) of each channel, in parts of their geometric mean and within bounds.
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

  void scale(const QuantisableLayer& from, const std::vector<const QuantisableLayer*>& to,
             const std::vector<float>& by) {
    const auto channels = static_cast<std::int64_t>(by.size());
    Tensor weights = graph_.constant(from.weight)->clone();
    const AxisSplit split = split_at(weights.shape(), from.axis);
    for (std::int64_t i = 0; i < weights.elements(); ++i)
      weights.mutable_data<float>()[i] /= by[static_cast<std::size_t>(i / split.inner % split.axis)];
    graph_.become_constant(from.weight, std::move(weights));  // keeps its handle
    if (from.bias.valid()) {
      Tensor bias = graph_.constant(from.bias)->clone();
      for (std::int64_t c = 0; c < channels; ++c) bias.mutable_data<float>()[c] /= by[static_cast<std::size_t>(c)];
      graph_.become_constant(from.bias, std::move(bias));
    }
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
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

std::optional<ir::Graph> equalise_channels(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::map<ValueId, ChannelStatistics>& channels) {
  return Equaliser(graph, layers, channels).run();
}

}  // namespace tessera::compress
