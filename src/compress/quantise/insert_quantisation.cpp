#include "compress/quantise/insert_quantisation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/quantised/quantised_nodes.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;

bool rounds_to(const ir::Graph& graph, const ir::Node& node, const UnsignedScale& scale) {
  if (scale.zero_point != 0) return false;
  if (node.op == "Relu") return true;
  if (node.op != "Clip" || node.inputs.size() < 3) return false;
  const Tensor *low = graph.constant(node.inputs[1]), *high = graph.constant(node.inputs[2]);
  const bool known = low != nullptr && high != nullptr && low->dtype() == DType::f32 && high->dtype() == DType::f32;
  constexpr float kLevels = 255, kRounding = 1e-5f;
  return known && *low->data<float>() == 0 && scale.scale * kLevels <= *high->data<float>() * (1 + kRounding);
}

// Integers with their scales, and the values in the graph that hold them.
struct StoredWeights {
  Tensor integers, scales;
  ValueId first, second;

  bool equal(const Tensor& other_integers, const Tensor& other_scales) const {
    return first.valid() && identical(integers, other_integers) && identical(scales, other_scales);
  }
};

class Inserter {
 public:
  Inserter(ir::Graph graph, const std::vector<QuantisableLayer>& layers, const std::set<std::size_t>& selected,
           const ActivationRanges& known, const InsertOptions& options)
      : graph_(std::move(graph)),
        builder_(graph_),
        layers_(layers),
        selected_(selected),
        known_(known),
        options_(options) {}

  ir::Graph run() {
    const QuantisedActivations activations(graph_, layers_, selected_);
    for (const ValueId value : activations.values())
      scales_[value] = unsigned_scale(known_.ranges.at(activations.scale_of(value)));
    for (const std::size_t i : selected_) {
      if (layers_[i].kind == LayerKind::table) store_table(layers_[i]);
      else quantise_layer(i);
    }
    const std::vector<std::vector<NodeId>> uses = graph_.compute_uses();
    for (const ValueId value : activations.values())
      quantise_activation(value, activations, uses[static_cast<std::size_t>(value.index)]);
    return finished();
  }

  ir::Graph run_weights(const std::vector<WeightForm>& forms) {
    for (const std::size_t i : selected_) {
      const QuantisableLayer& layer = layers_[i];
      if (forms[i].as == StoredAs::floats) continue;
      if (layer.kind == LayerKind::table) store_table(layer);
      else if (forms[i].as == StoredAs::blocks) store_blocks(i, forms[i]);
      else put_weights(layer, by_channel(i, {}));
    }
    return finished();
  }

 private:
  ir::Graph finished() {
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    ops::infer_graph(graph_);
    return std::move(graph_);
  }

  std::string fresh(ValueId value, const char* suffix) {
    const std::string name = graph_.value(value).name + suffix;
    return graph_.find_value(name).valid() ? graph_.fresh_name(name) : name;
  }

  // Inserts a QuantizeLinear and a DequantizeLinear behind the value, for readers that compute on integers. If the
  // value is itself computed from integers, all readers get the rounded value, so that it is stored as integers.
  void quantise_activation(ValueId value, const QuantisedActivations& activations, const std::vector<NodeId>& users) {
    const UnsignedScale scale = scales_.at(value);
    const ValueId s = builder_.scalar(static_cast<double>(scale.scale)),
                  z = builder_.scalar(scale.zero_point, DType::u8);
    ValueId from = value;
    bool is_integer = false;
    if (graph_.value(value).origin == ir::Origin::node) {
      const NodeId producer = graph_.value(value).producer;
      const ir::Node& node = graph_.node(producer);
      is_integer = activations.computes_quantised(producer);
      if (node.op == "Relu" || node.op == "Clip") {
        const ValueId before = node.inputs[0];
        is_integer = graph_.value(before).origin == ir::Origin::node &&
                     activations.computes_quantised(graph_.value(before).producer);
        if (is_integer && node.op == "Clip" && rounds_to(graph_, node, scale)) from = before;
      }
    }
    const ValueId real =
        ops::quantise_value(builder_, from, s, z, {fresh(value, "_quantized"), fresh(value, "_dequantized")}).real;
    for (const NodeId user : users) {
      if (!is_integer && !activations.computes_quantised(user)) continue;
      ir::Node& node = graph_.node(user);
      std::ranges::replace(node.inputs, value, real);
    }
  }

  // Stores the weights as integers in front of the layer.
  void put_weights(const QuantisableLayer& layer, const ChannelWeights& given) {
    const ChannelWeights weights = layer.transposed ? transposed(given) : given;
    StoredWeights& stored = channels_[{layer.weight, weights.axis}];
    if (!stored.equal(weights.values, weights.scales)) {
      stored = {weights.values,
                weights.scales,
                ops::dequantise_constant(builder_, weights.values, weights.scales, weights.axis,
                                         {fresh(layer.weight, "_quantized"), fresh(layer.weight, "_dequantized")})
                    .real,
                {}};
    }
    graph_.node(layer.node).inputs[1] = stored.first;
  }

  ChannelWeights by_channel(std::size_t i, std::span<const double> least_scales) const {
    const auto given = options_.rounded.channels.find(i);
    if (given != options_.rounded.channels.end()) return given->second;
    const Tensor& weights = *graph_.constant(layers_[i].weight);
    ChannelWeights rounded = round_by_channel(weights, layers_[i].axis, least_scales);
    if (options_.correct_variance) rounded.scales = with_variance_of(weights, rounded);
    return rounded;
  }

  void quantise_layer(std::size_t i) {
    const QuantisableLayer& layer = layers_[i];
    const Tensor weights = *graph_.constant(layer.weight);
    const std::int64_t channels = weights.shape()[static_cast<std::size_t>(layer.axis)];
    std::vector<double> bias(static_cast<std::size_t>(channels), 0.0);
    if (layer.bias.valid()) {
      const float* given = graph_.constant(layer.bias)->data<float>();
      std::copy(given, given + channels, bias.begin());
    }
    const double unit = static_cast<double>(scales_.at(layer.data).scale);
    const ChannelWeights rounded = by_channel(i, least_weight_scales(graph_, layer, unit));
    put_weights(layer, rounded);
    const bool has_place = layer.kind == LayerKind::convolution || layer.bias.valid() || is_gemm(layer);
    if (!has_place) return;
    if (options_.correct_bias) correct(layer, weights, real_weights(rounded), bias);
    put_bias(layer, bias, rounded.scales, unit);
  }

  bool is_gemm(const QuantisableLayer& layer) const { return graph_.node(layer.node).op == "Gemm"; }

  // Corrects the bias by the shift that rounding the weights causes in the mean of the layer's output (M. Nagel et al.,
  // arXiv:1906.04721, section 4.2, with measured means of the layer's data).
  void correct(const QuantisableLayer& layer, const Tensor& exact, const Tensor& rounded,
               std::vector<double>& bias) const {
    const auto found = known_.means.find(layer.data);
    if (found == known_.means.end()) return;
    const std::vector<double>& means = found->second;
    const float *a = exact.data<float>(), *b = rounded.data<float>();
    const AxisSplit split = split_at(exact.shape(), layer.axis);
    const bool convolution = layer.kind == LayerKind::convolution;
    // The weights of a convolution are [outputs, inputs of a group, window], those of a product [k, n] or [n, k].
    const std::int64_t window = convolution ? element_count({exact.shape().begin() + 2, exact.shape().end()}) : 1,
                       inputs = split.outer * split.inner / window,
                       groups = static_cast<std::int64_t>(means.size()) / std::max<std::int64_t>(inputs, 1);
    if (inputs == 0 || groups < 1 || groups * inputs != static_cast<std::int64_t>(means.size())) return;
    for (std::int64_t i = 0; i < exact.elements(); ++i) {
      const std::int64_t channel = i / split.inner % split.axis;
      const std::int64_t input = convolution        ? i % split.inner / window
                                 : split.inner == 1 ? i / split.axis
                                                    : i % split.inner;
      const std::int64_t group = convolution ? channel / (split.axis / groups) : 0;
      bias[static_cast<std::size_t>(channel)] +=
          static_cast<double>(a[i] - b[i]) * means[static_cast<std::size_t>(group * inputs + input)];
    }
  }

  void put_bias(const QuantisableLayer& layer, const std::vector<double>& bias, const Tensor& scales, double unit) {
    if (layer.bias_add.valid()) {
      std::ranges::replace(graph_.node(layer.bias_add).inputs, layer.bias, real_bias(layer.bias, bias));
      return;
    }
    const bool any = layer.bias.valid() || std::ranges::any_of(bias, [](double b) { return b != 0; });
    if (!any) return;
    const ValueId named = layer.bias.valid() ? layer.bias : layer.weight;
    const std::optional<ops::QuantisedValue> integers = ops::dequantise_bias(
        builder_, bias, scales, unit, {fresh(named, "_bias_quantized"), fresh(named, "_bias_dequantized")});
    std::vector<ValueId>& inputs = graph_.node(layer.node).inputs;
    if (inputs.size() < 3) inputs.resize(3);
    inputs[2] = integers ? integers->real : real_bias(named, bias);
  }

  ValueId real_bias(ValueId named, const std::vector<double>& bias) {
    Tensor real(DType::f32, {static_cast<std::int64_t>(bias.size())});
    std::ranges::transform(bias, real.mutable_data<float>(), [](double b) { return static_cast<float>(b); });
    return graph_.add_constant(std::move(real), fresh(named, "_corrected"));
  }

  // Lets the Gather pick rows of integers, and dequantises only these.
  void store_table(const QuantisableLayer& layer) {
    const ChannelWeights rounded = round_by_channel(*graph_.constant(layer.weight), 0);
    const ValueId q = stored(layer.weight, rounded.values);
    const ValueId scales = builder_.constant(rounded.scales.reshaped({rounded.scales.elements(), 1}));
    const ir::Node node = graph_.node(layer.node);
    builder_.set_name_prefix(node.name + "/");
    const ValueId numbers = builder_.cast(builder_.add("Gather", {q, layer.data}, node.attributes), DType::f32);
    const ValueId scale = builder_.add("Gather", {scales, layer.data}, node.attributes);
    ir::Node product{"Mul", node.name, {numbers, scale}, node.outputs, {}, 0};
    graph_.replace_node(layer.node, std::move(product));
  }

  // Stores the integers of a table once, even if several layers use it.
  ValueId stored(ValueId weight, const Tensor& values) {
    const auto [found, fresh_one] = tables_.try_emplace(weight);
    if (fresh_one) found->second = graph_.add_constant(values, fresh(weight, "_quantized"));
    return found->second;
  }

  void store_blocks(std::size_t i, const WeightForm& form) {
    const QuantisableLayer& layer = layers_[i];
    const auto given = options_.rounded.blocks.find(i);
    const RoundedBlocks rounded =
        given != options_.rounded.blocks.end()
            ? given->second
            : round_by_block(*graph_.constant(layer.weight), layer.axis, form.bits, form.group);
    StoredWeights& stored = blocks_[{layer.weight, layer.axis}];
    if (!stored.equal(rounded.numbers, rounded.scales)) {
      stored = {rounded.numbers, rounded.scales,
                graph_.add_constant(rounded.numbers, fresh(layer.weight, "_quantized")),
                graph_.add_constant(rounded.scales, fresh(layer.weight, "_scales"))};
    }
    ir::Node node = graph_.node(layer.node);
    std::vector<ValueId> inputs{layer.data, stored.first, stored.second};
    if (is_gemm(layer) && layer.bias.valid()) inputs.insert(inputs.end(), {ValueId{}, ValueId{}, layer.bias});
    ir::Node product{
        "com.microsoft::MatMulNBits",
        node.name,
        inputs,
        node.outputs,
        {{"K", rounded.k}, {"N", rounded.n}, {"bits", std::int64_t{form.bits}}, {"block_size", form.group}},
        0};
    graph_.replace_node(layer.node, std::move(product));
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const std::vector<QuantisableLayer>& layers_;
  const std::set<std::size_t>& selected_;
  const ActivationRanges& known_;
  const InsertOptions& options_;
  std::map<ValueId, UnsignedScale> scales_;
  std::map<ValueId, ValueId> tables_;
  // The integers by their original weights and the axis of the outputs, so that layers with equal weights share them.
  std::map<std::pair<ValueId, std::int64_t>, StoredWeights> channels_, blocks_;
};

}  // namespace

std::vector<double> least_weight_scales(const ir::Graph& graph, const QuantisableLayer& layer, double unit) {
  constexpr double kMostUnits = 1e9;
  if (!layer.bias.valid() || layer.bias_add.valid()) return {};
  const Tensor& bias = *graph.constant(layer.bias);
  std::vector<double> least(static_cast<std::size_t>(bias.elements()));
  std::ranges::transform(bias.values<float>(), least.begin(),
                         [&](float b) { return std::abs(static_cast<double>(b)) / (unit * kMostUnits); });
  return least;
}

ir::Graph quantise_layers(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                          const std::set<std::size_t>& selected, const ActivationRanges& known,
                          const InsertOptions& options) {
  return Inserter(graph, layers, selected, known, options).run();
}

ir::Graph quantise_weights(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                           const std::set<std::size_t>& selected, const std::vector<WeightForm>& forms,
                           const RoundedWeights& rounded) {
  const InsertOptions options{.rounded = rounded};
  return Inserter(graph, layers, selected, {}, options).run_weights(forms);
}

}  // namespace tessera::compress
