#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/quantised/quantised_nodes.h"
#include "train/net/fake_quantisation.h"
#include "train/net/trained_model.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

// Maps the elements of a weight to channels: element i belongs to channel i / inner % channels.
struct Channels {
  std::int64_t count = 0, inner = 1;
  std::size_t of(std::int64_t element) const { return static_cast<std::size_t>(element / inner % count); }
};

Channels channels_of(const Shape& shape, std::int64_t axis) {
  Channels channels{shape[static_cast<std::size_t>(axis)], 1};
  for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) channels.inner *= shape[i];
  return channels;
}

// Codes from −8 to 7, two per byte, with the first one in the lower half.
Tensor packed_int4(const Shape& shape, const std::vector<std::int8_t>& codes) {
  Tensor packed(DType::i4, shape);
  auto* bytes = static_cast<std::uint8_t*>(packed.mutable_raw());
  std::fill(bytes, bytes + packed.bytes(), std::uint8_t{0});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int code = static_cast<std::uint8_t>(codes[i]) & 0xF;
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | code << (i % 2 == 0 ? 0 : 4));
  }
  return packed;
}

class Exporter {
 public:
  Exporter(const Model& model, const CompressOptions& options, const std::map<std::string, Tensor>& values,
           bool fixed_norm)
      : graph_(with_weights(model, values).graph()),
        builder_(graph_),
        options_(options),
        values_(values),
        folds_before_(options.batch_norm == "folded" && !fixed_norm),
        learned_(options.ranges == "learned") {}

  Model run() {
    for (const FakeQuantisedLayer& layer : quantised_layers(graph_, options_)) quantise(layer);
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return Model(std::make_shared<const ir::Graph>(std::move(graph_)));
  }

 private:
  // A normalisation as y = x · factor + shift, per channel.
  struct Norm {
    std::vector<float> factor, mean, bias;
  };

  struct Data {
    ValueId value;
    std::optional<float> step;  // nothing if it is not quantised
  };

  const Tensor& value_of(const std::string& name) const {
    const auto found = values_.find(name);
    require(found != values_.end(), ErrorKind::invalid_argument,
            "the quantised net cannot be made: there is no variable '{}'", name);
    return found->second;
  }

  std::vector<float> floats(ValueId constant) const {
    const auto values = graph_.constant(constant)->values<float>();
    return {values.begin(), values.end()};
  }

  void quantise(const FakeQuantisedLayer& layer) {
    const std::optional<Norm> norm = norm_of(layer);
    const Tensor weights = *graph_.constant(graph_.node(layer.node).inputs[1]);
    const Channels channels = channels_of(weights.shape(), layer.axis);
    std::vector<float> effective(weights.values<float>().begin(), weights.values<float>().end());
    if (norm && folds_before_) {
      for (std::int64_t i = 0; i < weights.elements(); ++i)
        effective[static_cast<std::size_t>(i)] *= norm->factor[channels.of(i)];
    }
    std::vector<float> steps = weight_steps(layer, effective, channels);
    std::vector<std::int8_t> codes(effective.size());
    const auto most = static_cast<float>(largest_code(options_));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float step = steps[channels.of(static_cast<std::int64_t>(i))], bound = step * most;
      codes[i] = static_cast<std::int8_t>(std::nearbyint(std::clamp(effective[i], -bound, bound) / step));
    }
    if (norm && !folds_before_) fold(*norm, channels, codes, steps);
    const Data data = quantised_input(layer);
    const std::string name = layer.weight + "_quantised";
    const ops::QuantisedValue integers =
        ops::dequantise_constant(builder_, as_tensor(weights.shape(), codes), tensor_of(steps), layer.axis,
                                 {graph_.find_value(name).valid() ? graph_.fresh_name(name) : name, ""});
    graph_.node(layer.node).inputs[0] = data.value;
    graph_.node(layer.node).inputs[1] = integers.real;
    add_bias(layer, norm, steps, data.step);
    if (!norm) return;
    const ValueId result = graph_.node(layer.node).outputs[0], normalised = graph_.node(layer.norm).outputs[0];
    graph_.replace_uses(normalised, result);
    graph_.remove_node(layer.norm);
    std::swap(graph_.value(result).name, graph_.value(normalised).name);
  }

  Tensor as_tensor(const Shape& shape, const std::vector<std::int8_t>& codes) const {
    if (options_.weights == 4) return packed_int4(shape, codes);
    return Tensor::from<std::int8_t>(shape, std::span<const std::int8_t>(codes));
  }
  static Tensor tensor_of(const std::vector<float>& values) {
    return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values));
  }

  std::optional<Norm> norm_of(const FakeQuantisedLayer& layer) const {
    if (!layer.norm.valid()) return std::nullopt;
    const ir::Node& node = graph_.node(layer.norm);
    Norm norm{floats(node.inputs[1]), floats(node.inputs[3]), floats(node.inputs[2])};
    const std::vector<float> variance = floats(node.inputs[4]);
    const auto epsilon = node.attributes.find("epsilon");
    const float least = epsilon == node.attributes.end() ? 1e-5f : std::get<float>(epsilon->second);
    for (std::size_t i = 0; i < variance.size(); ++i) norm.factor[i] /= std::sqrt(variance[i] + least);
    return norm;
  }

  std::vector<float> weight_steps(const FakeQuantisedLayer& layer, const std::vector<float>& weights,
                                  Channels channels) const {
    std::vector<float> steps(static_cast<std::size_t>(channels.count), 0.0f);
    if (learned_) {
      const auto seen = value_of(weight_step_of(layer.weight)).values<float>(),
                 factors = value_of(weight_factor_of(layer.weight)).values<float>();
      for (std::size_t c = 0; c < steps.size(); ++c)
        steps[c] = std::max(seen[c], kLeastStep) * std::max(factors[c], kLeastFactor);
      return steps;
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      float& largest = steps[channels.of(static_cast<std::int64_t>(i))];
      largest = std::max(largest, std::abs(weights[i]));
    }
    for (float& step : steps) step = std::max(step / static_cast<float>(largest_code(options_)), kLeastStep);
    return steps;
  }

  // Folds the normalisation behind a rounded layer into the steps; a negative factor also negates the codes.
  static void fold(const Norm& norm, Channels channels, std::vector<std::int8_t>& codes, std::vector<float>& steps) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float factor = norm.factor[channels.of(static_cast<std::int64_t>(i))];
      if (factor == 0) codes[i] = 0;
      else if (factor < 0) codes[i] = static_cast<std::int8_t>(-codes[i]);
    }
    for (std::size_t c = 0; c < steps.size(); ++c) {
      if (norm.factor[c] != 0) steps[c] *= std::abs(norm.factor[c]);
    }
  }

  Data quantised_input(const FakeQuantisedLayer& layer) {
    const ValueId given = graph_.node(layer.node).inputs[0];
    if (options_.activations == 0) return {given, std::nullopt};
    const auto [entry, is_new] = inputs_.try_emplace(given);
    if (!is_new) return entry->second;
    const float low = *value_of(input_low_of(layer.input)).data<float>(),
                high = *value_of(input_high_of(layer.input)).data<float>();
    const float seen = std::max((high - low) / 255.0f, kLeastStep);
    const auto zero = static_cast<std::uint8_t>(std::clamp(std::nearbyint(-low / seen), 0.0f, 255.0f));
    float step = seen;
    if (learned_) step *= std::max(*value_of(input_factor_of(layer.input)).data<float>(), kLeastFactor);
    const ValueId scale = builder_.constant(Tensor::scalar(step)), point = builder_.constant(Tensor::scalar(zero));
    entry->second = {ops::quantise_value(builder_, given, scale, point).real, step};
    return entry->second;
  }

  void add_bias(const FakeQuantisedLayer& layer, const std::optional<Norm>& norm, const std::vector<float>& steps,
                std::optional<float> data_step) {
    ir::Node node = graph_.node(layer.node);
    const ValueId given = node.inputs.size() > 2 ? node.inputs[2] : ValueId{};
    const bool is_vector = given.valid() && graph_.is_constant(given) && graph_.constant(given)->rank() == 1 &&
                           graph_.constant(given)->elements() == static_cast<std::int64_t>(steps.size());
    if (!norm && !is_vector) return;
    std::vector<float> bias = is_vector ? floats(given) : std::vector<float>(steps.size(), 0.0f);
    if (norm) {
      for (std::size_t c = 0; c < bias.size(); ++c)
        bias[c] = norm->bias[c] + (bias[c] - norm->mean[c]) * norm->factor[c];
    }
    std::optional<ops::QuantisedValue> integers;
    if (data_step)
      integers = ops::dequantise_bias(builder_, std::vector<double>(bias.begin(), bias.end()), tensor_of(steps),
                                      static_cast<double>(*data_step));
    const ValueId real = integers ? integers->real : builder_.constant(tensor_of(bias));
    graph_.node(layer.node).inputs.resize(3);
    graph_.node(layer.node).inputs[2] = real;
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const CompressOptions& options_;
  const std::map<std::string, Tensor>& values_;
  bool folds_before_, learned_;
  std::map<ValueId, Data> inputs_;  // quantised data by their original values
};

}  // namespace

Model quantised_model(const Model& model, const CompressOptions& options, const std::map<std::string, Tensor>& values,
                      bool fixed_norm) {
  const auto runs = values.find(observed_runs());
  require(runs != values.end() && *runs->second.data<std::int64_t>() > 0, ErrorKind::invalid_argument,
          "the net cannot be exported as integers: no training step has observed the ranges of its values yet");
  return Exporter(model, options, values, fixed_norm).run();
}

}  // namespace tessera::train
