#include "compress/quantise/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::compress {
namespace {

void add_channels(ChannelStatistics& statistics, const Tensor& tensor, std::int64_t axis) {
  const AxisSplit split = split_at(tensor.shape(), axis);
  statistics.sums.resize(static_cast<std::size_t>(split.axis), 0.0);
  statistics.largest.resize(static_cast<std::size_t>(split.axis), 0.0f);
  const float* from = tensor.data<float>();
  for (std::int64_t o = 0; o < split.outer; ++o) {
    for (std::int64_t c = 0; c < split.axis; ++c) {
      double sum = 0;
      float largest = statistics.largest[static_cast<std::size_t>(c)];
      for (std::int64_t i = 0; i < split.inner; ++i, ++from) {
        sum += static_cast<double>(*from);
        largest = std::max(largest, std::abs(*from));
      }
      statistics.sums[static_cast<std::size_t>(c)] += sum;
      statistics.largest[static_cast<std::size_t>(c)] = largest;
    }
  }
  statistics.count += split.outer * split.inner;
}

}  // namespace

ActivationRanges Calibration::ranges(RangeEstimator estimator, double percentile) const {
  ActivationRanges result;
  for (const auto& [value, histogram] : histograms) result.ranges[value] = histogram.estimate(estimator, percentile);
  for (const auto& [value, statistics] : channels) {
    std::vector<double> means = statistics.sums;
    for (double& mean : means) mean /= static_cast<double>(std::max<std::int64_t>(1, statistics.count));
    result.means.emplace(value, std::move(means));
  }
  return result;
}

void observe(const ir::Graph& graph, const std::vector<ir::ValueId>& values, const CalibrationData& data,
             std::int64_t most_samples, const SessionOptions& session,
             const std::function<bool(const SampleBatch&, const std::vector<Tensor>&)>& each) {
  auto observed = std::make_shared<ir::Graph>(graph);
  std::vector<ir::ValueId> outputs = graph.outputs();
  std::vector<OutputRequest> requests;
  for (const ir::ValueId value : values) {
    if (graph.value(value).origin != ir::Origin::node) continue;
    requests.emplace_back(graph.value(value).name);
    if (std::ranges::find(outputs, value) == outputs.end()) outputs.push_back(value);
  }
  observed->set_outputs(outputs);
  const Model model{std::shared_ptr<const ir::Graph>(observed)};
  Session run(model, session);
  std::int64_t samples = 0;
  const auto run_batch = [&](const SampleBatch& batch) {
    const std::vector<Value> computed = run.run(batch.inputs, requests, {.seed = 0});
    std::vector<Tensor> tensors;
    std::size_t next = 0;
    for (const ir::ValueId id : values) {
      const std::string& name = graph.value(id).name;
      const bool made = graph.value(id).origin == ir::Origin::node;
      tensors.push_back(made ? computed[next++].tensor() : batch.inputs.at(name).tensor());
      require(std::ranges::all_of(tensors.back().values<float>(), [](float value) { return std::isfinite(value); }),
              ErrorKind::invalid_argument, "the model computes NaN or infinities in '{}' for samples from {} on", name,
              samples);
    }
    samples += batch.samples;
    return each(batch, tensors);
  };
  if (most_samples > 0) read_spread_samples(model, data, most_samples, run_batch);
  else read_samples(model, data, run_batch);
}

Calibration calibrate(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers, const CalibrationData& data,
                      const SessionOptions& session, const std::function<void(std::int64_t samples)>& progress) {
  Calibration result;
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < layers.size(); ++i) all.insert(i);
  const QuantisedActivations activations(graph, layers, all);
  const std::vector<ir::ValueId> watched(activations.values().begin(), activations.values().end());
  std::map<ir::ValueId, const QuantisableLayer*> layer_of;
  for (const QuantisableLayer& layer : layers) {
    if (layer.kind != LayerKind::table) layer_of[layer.data] = &layer;
  }
  observe(graph, watched, data, 0, session, [&](const SampleBatch& batch, const std::vector<Tensor>& tensors) {
    for (std::size_t i = 0; i < watched.size(); ++i) {
      result.histograms[watched[i]].add(tensors[i].values<float>());
      if (const auto layer = layer_of.find(watched[i]); layer != layer_of.end())
        add_channels(result.channels[watched[i]], tensors[i], channel_axis(*layer->second, tensors[i].rank()));
    }
    result.samples += batch.samples;
    if (progress) progress(result.samples);
    return true;
  });
  return result;
}

}  // namespace tessera::compress
