#include "compress/quantise/input_moments.h"

#include <algorithm>
#include <memory>

#include "compress/core/spread.h"
#include "ops/convolutions/conv.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/builder.h"

namespace tessera::compress {
namespace {

constexpr std::int64_t kRows = 512;  // rows taken of a batch

// The windows of a convolution over data [samples, channels, spatial…].
class Windows {
 public:
  Windows(const ir::Graph& graph, const QuantisableLayer& layer, const Tensor& data, LayerInputs inputs)
      : data_(data),
        inputs_(inputs),
        axes_(ops::convolution_geometry(ops::AttributeReader(graph.node(layer.node), ops::conv), data.shape(),
                                        graph.constant(layer.weight)->shape())) {
    for (const ops::WindowAxis& axis : axes_) {
      outputs_ *= axis.output;
      taps_ *= axis.kernel;
      plane_ *= axis.input;
    }
  }

  std::int64_t count() const { return data_.shape()[0] * outputs_; }

  // Copies the inputs of the output at a position. Those of a group begin at to + group * stride.
  void copy(std::int64_t position, float* to, std::int64_t stride) const {
    const std::int64_t channels = data_.shape()[1], per_group = channels / inputs_.groups;
    const float* from = data_.data<float>() + position / outputs_ * channels * plane_;
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const std::int64_t at = place(position % outputs_, tap);
      for (std::int64_t c = 0; c < channels && at >= 0; ++c)
        to[c / per_group * stride + c % per_group * taps_ + tap] = from[c * plane_ + at];
    }
  }

 private:
  // The position in a channel of a tap of a window, or -1 in the padding.
  std::int64_t place(std::int64_t output, std::int64_t tap) const {
    std::int64_t at = 0, scale = 1;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      const std::int64_t i =
          output % axis->output * axis->stride - axis->pad_begin + tap % axis->kernel * axis->dilation;
      if (i < 0 || i >= axis->input) return -1;
      at += i * scale;
      scale *= axis->input;
      output /= axis->output;
      tap /= axis->kernel;
    }
    return at;
  }

  const Tensor& data_;
  LayerInputs inputs_;
  std::vector<ops::WindowAxis> axes_;
  std::int64_t outputs_ = 1, taps_ = 1, plane_ = 1;
};

// A session that computes moments + rowsᵀ rows, for rows of one size.
Session accumulator(const Tensor& moments, const SessionOptions& options) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const Shape& shape = moments.shape();
  const ir::ValueId rows = graph.add_input("rows", ir::ValueType::tensor(DType::f32, Shape{shape[0], kRows, shape[2]}));
  const ir::ValueId before = graph.add_input("before", ir::ValueType::tensor(DType::f32, shape));
  const ir::ValueId turned = builder.add("Transpose", {rows}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  const ir::ValueId after = builder.add("Add", {builder.add("MatMul", {turned, rows}), before});
  graph.value(after).name = "after";
  graph.add_output(after);
  return Session(Model(std::make_shared<const ir::Graph>(std::move(graph))), options);
}

// Inputs [from, from + length) of all rows.
Tensor slice_of(const Tensor& rows, std::int64_t from, std::int64_t length) {
  const Shape& shape = rows.shape();
  if (length == shape[2]) return rows;
  Tensor slice(DType::f32, {shape[0], shape[1], length});
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i)
    std::copy_n(rows.data<float>() + i * shape[2] + from, length, slice.mutable_data<float>() + i * length);
  return slice;
}

}  // namespace

LayerInputs inputs_of(const ir::Graph& graph, const QuantisableLayer& layer) {
  const Shape& weights = graph.constant(layer.weight)->shape();
  if (layer.kind == LayerKind::product) return {1, weights[static_cast<std::size_t>(1 - layer.axis)]};
  const std::int64_t groups = ops::AttributeReader(graph.node(layer.node), ops::conv).integer("group");
  return {groups, element_count({weights.begin() + 1, weights.end()})};
}

Tensor input_rows(const ir::Graph& graph, const QuantisableLayer& layer, const Tensor& data, std::int64_t rows,
                  std::uint64_t seed) {
  const LayerInputs inputs = inputs_of(graph, layer);
  Tensor result(DType::f32, {inputs.groups, rows, inputs.inputs});
  std::ranges::fill(result.mutable_values<float>(), 0.0f);
  float* to = result.mutable_data<float>();
  if (layer.kind == LayerKind::product) {
    const std::int64_t length = inputs.inputs;
    for (const std::int64_t row : spread_positions(data.elements() / std::max<std::int64_t>(1, length), rows, seed)) {
      std::copy_n(data.data<float>() + row * length, length, to);
      to += length;
    }
    return result;
  }
  const Windows windows(graph, layer, data, inputs);
  for (const std::int64_t position : spread_positions(windows.count(), rows, seed)) {
    windows.copy(position, to, rows * inputs.inputs);
    to += inputs.inputs;
  }
  return result;
}

std::vector<std::vector<Tensor>> input_moments(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                               std::int64_t slice, const CalibrationData& data,
                                               std::int64_t most_samples, const SessionOptions& session,
                                               const std::function<void(std::int64_t samples)>& progress) {
  std::vector<std::vector<Tensor>> moments(layers.size());
  std::vector<std::vector<Session>> sums(layers.size());
  std::vector<ir::ValueId> values;
  std::vector<std::size_t> data_of;  // index in `values` of each layer's data
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto known = std::ranges::find(values, layers[i].data);
    data_of.push_back(static_cast<std::size_t>(known - values.begin()));
    if (known == values.end()) values.push_back(layers[i].data);
    const LayerInputs inputs = inputs_of(graph, layers[i]);
    for (std::int64_t from = 0; from < inputs.inputs; from += slice) {
      const std::int64_t length = std::min(slice, inputs.inputs - from);
      Tensor zeros(DType::f32, {inputs.groups, length, length});
      std::ranges::fill(zeros.mutable_values<float>(), 0.0f);
      sums[i].push_back(accumulator(zeros, session));
      moments[i].push_back(std::move(zeros));
    }
  }
  std::int64_t samples = 0;
  std::uint64_t batches = 0;
  observe(graph, values, data, most_samples, session,
          [&](const SampleBatch& batch, const std::vector<Tensor>& tensors) {
            for (std::size_t i = 0; i < layers.size(); ++i) {
              const Tensor rows = input_rows(graph, layers[i], tensors[data_of[i]], kRows, batches);
              for (std::size_t part = 0; part < moments[i].size(); ++part) {
                Tensor& sum = moments[i][part];
                const Tensor some = slice_of(rows, static_cast<std::int64_t>(part) * slice, sum.shape()[2]);
                sum = sums[i][part].run({{"rows", some}, {"before", sum}}).at("after").tensor();
              }
            }
            ++batches;
            samples += batch.samples;
            if (progress) progress(samples);
            return true;
          });
  return moments;
}

}  // namespace tessera::compress
