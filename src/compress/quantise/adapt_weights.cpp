#include "compress/quantise/adapt_weights.h"

#include <algorithm>

#include "compress/quantise/adaptive_rounding.h"
#include "compress/quantise/input_moments.h"

namespace tessera::compress {
namespace {

constexpr std::int64_t kSlice = 4096;
constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;

// The matrix [k, n] as [n, k].
template <typename T>
Tensor transposed(const Tensor& tensor) {
  const std::int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  Tensor result(tensor.dtype(), {columns, rows});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      result.mutable_data<T>()[j * rows + i] = tensor.data<T>()[i * columns + j];
  }
  return result;
}

// Columns [from, from + length) of [groups, rows, columns].
template <typename T>
Tensor columns_of(const Tensor& tensor, std::int64_t from, std::int64_t length) {
  const Shape& shape = tensor.shape();
  if (length == shape[2]) return tensor;
  Tensor result(tensor.dtype(), {shape[0], shape[1], length});
  for (std::int64_t row = 0; row < shape[0] * shape[1]; ++row)
    std::copy_n(tensor.data<T>() + row * shape[2] + from, length, result.mutable_data<T>() + row * length);
  return result;
}

// Adds one percent of the mean moment to the diagonal, for inputs that the samples say too little about.
void damp(Tensor& moments) {
  constexpr float kPart = 0.01f;
  const std::int64_t inputs = moments.shape()[2];
  for (std::int64_t group = 0; group < moments.shape()[0]; ++group) {
    float* of = moments.mutable_data<float>() + group * inputs * inputs;
    float mean = 0;
    for (std::int64_t i = 0; i < inputs; ++i) mean += of[i * (inputs + 1)] / static_cast<float>(inputs);
    for (std::int64_t i = 0; i < inputs; ++i) of[i * (inputs + 1)] += kPart * mean;
  }
}

class Adapter {
 public:
  Adapter(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
          const std::function<std::vector<double>(const QuantisableLayer&)>& scales, const AdaptOptions& options)
      : graph_(graph), layers_(layers), scales_(scales), options_(options) {}

  AdaptedWeights run(const std::set<std::size_t>& selected) {
    for (const std::size_t i : selected) {
      if (layers_[i].kind != LayerKind::table) all_.push_back(i);
    }
    for (std::size_t from = 0; from < all_.size();) {
      std::size_t to = from;
      std::int64_t bytes = 0;
      do bytes += moment_bytes(layers_[all_[to++]]);
      while (to < all_.size() && bytes + moment_bytes(layers_[all_[to]]) <= kMostBytes);
      adapt(from, to);
      from = to;
    }
    return std::move(result_);
  }

 private:
  std::int64_t moment_bytes(const QuantisableLayer& layer) const {
    const LayerInputs inputs = inputs_of(graph_, layer);
    const std::int64_t slices = (inputs.inputs + kSlice - 1) / kSlice, longest = std::min(inputs.inputs, kSlice);
    return inputs.groups * slices * longest * longest * static_cast<std::int64_t>(sizeof(float));
  }

  void say(std::size_t place, double done) const {
    if (!options_.progress) return;
    options_.progress(layers_[all_[place]].name,
                      (static_cast<double>(place) + done) / static_cast<double>(all_.size()));
  }

  // Rounds the layers at positions [from, to) of `all_`.
  void adapt(std::size_t from, std::size_t to) {
    std::vector<QuantisableLayer> some;
    for (std::size_t place = from; place < to; ++place) some.push_back(layers_[all_[place]]);
    std::vector<std::vector<Tensor>> moments = input_moments(graph_, some, kSlice, options_.data, options_.most_samples,
                                                             options_.session, [&](std::int64_t) { say(from, 0); });
    for (std::size_t place = from; place < to; ++place) {
      adapt_layer(place, moments[place - from]);
      moments[place - from].clear();
    }
  }

  void adapt_layer(std::size_t place, std::vector<Tensor>& moments) {
    const std::size_t i = all_[place];
    const QuantisableLayer& layer = layers_[i];
    const Tensor& weights = *graph_.constant(layer.weight);
    const LayerInputs inputs = inputs_of(graph_, layer);
    const std::int64_t channels = weights.shape()[static_cast<std::size_t>(layer.axis)];
    const Shape by_row{inputs.groups, channels / inputs.groups, inputs.inputs};
    const bool turned = layer.kind == LayerKind::product && layer.axis == 1;
    const bool blocks = !options_.forms.empty() && options_.forms[i].as == StoredAs::blocks;
    RoundingProblem whole{.weights = (turned ? transposed<float>(weights) : weights).reshaped(by_row)};
    ChannelWeights by_channel;
    if (blocks) {
      const WeightForm& form = options_.forms[i];
      whole.scales = round_by_block(weights, layer.axis, form.bits, form.group).scales;
      whole.scales = whole.scales.reshaped({1, channels, whole.scales.shape()[1]});
      whole.block = form.group;
      whole.least = -(1 << (form.bits - 1));
      whole.most = -whole.least - 1;
    } else {
      by_channel = round_by_channel(weights, layer.axis, scales_(layer));
      whole.scales = by_channel.scales.reshaped({by_row[0], by_row[1], 1});
      whole.block = inputs.inputs;
    }
    const Tensor integers = solve(whole, moments, place);
    const Tensor flat = integers.reshaped({channels, inputs.inputs});
    if (blocks) {
      const Tensor scales = whole.scales.reshaped({channels, whole.scales.shape()[2]});
      result_.rounded.blocks.emplace(i, pack_blocks(flat, scales, options_.forms[i].bits, options_.forms[i].group));
    } else {
      by_channel.values = (turned ? transposed<std::int8_t>(flat) : flat).reshaped(weights.shape());
      result_.rounded.channels.emplace(i, std::move(by_channel));
    }
  }

  // Computes the integers slice by slice of the inputs.
  Tensor solve(const RoundingProblem& whole, std::vector<Tensor>& moments, std::size_t place) {
    const Shape& shape = whole.weights.shape();
    Tensor integers(DType::i8, shape);
    LayerError& error = result_.errors[all_[place]];
    const auto slices = static_cast<double>(moments.size());
    for (std::size_t part = 0; part < moments.size(); ++part) {
      const std::int64_t from = static_cast<std::int64_t>(part) * kSlice, length = moments[part].shape()[2];
      RoundingProblem problem = whole;
      damp(moments[part]);
      problem.moments = moments[part];
      problem.weights = columns_of<float>(whole.weights, from, length);
      if (whole.scales.shape()[2] > 1)
        problem.scales = columns_of<float>(whole.scales, from / whole.block, (length + whole.block - 1) / whole.block);
      const Tensor some = round_adaptively(problem, {options_.steps, options_.session, [&](double done) {
                                                       say(place, (static_cast<double>(part) + done) / slices);
                                                     }});
      error.nearest += output_error(problem, round_to_nearest(problem));
      error.adaptive += output_error(problem, some);
      for (std::int64_t row = 0; row < shape[0] * shape[1]; ++row)
        std::copy_n(some.data<std::int8_t>() + row * length, length,
                    integers.mutable_data<std::int8_t>() + row * shape[2] + from);
    }
    return integers;
  }

  const ir::Graph& graph_;
  const std::vector<QuantisableLayer>& layers_;
  const std::function<std::vector<double>(const QuantisableLayer&)>& scales_;
  const AdaptOptions& options_;
  std::vector<std::size_t> all_;
  AdaptedWeights result_;
};

}  // namespace

AdaptedWeights adapt_weights(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                             const std::set<std::size_t>& selected,
                             const std::function<std::vector<double>(const QuantisableLayer&)>& scales,
                             const AdaptOptions& options) {
  return Adapter(graph, layers, scales, options).run(selected);
}

}  // namespace tessera::compress
