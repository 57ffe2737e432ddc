#include "compress/calibration.h"

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

Calibration calibrate(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers, const CalibrationData& data,
                      const SessionOptions& session, const std::function<void(std::int64_t samples)>& progress) {
  Calibration result;
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < layers.size(); ++i) all.insert(i);
  const QuantisedActivations activations(graph, layers, all);
  std::vector<ir::ValueId> watched(activations.values().begin(), activations.values().end());
  std::map<ir::ValueId, const QuantisableLayer*> layer_of;
  for (const QuantisableLayer& layer : layers) {
    if (layer.kind != LayerKind::table) layer_of[layer.data] = &layer;
  }
  auto observed = std::make_shared<ir::Graph>(graph);
  std::vector<ir::ValueId> outputs = graph.outputs();
  std::vector<OutputRequest> requests;
  for (const ir::ValueId value : watched) {
    if (std::ranges::find(outputs, value) == outputs.end() && graph.value(value).origin == ir::Origin::node)
      outputs.push_back(value);
  }
  observed->set_outputs(outputs);
  const Model model{std::shared_ptr<const ir::Graph>(observed)};
  Session run(model, session);
  read_samples(model, data, [&](const SampleBatch& batch) {
    const NamedValues values = run.run(batch.inputs);
    for (const ir::ValueId id : watched) {
      const std::string& name = graph.value(id).name;
      const auto found = values.find(name);
      const Tensor& tensor = found != values.end() ? found->second.tensor() : batch.inputs.at(name).tensor();
      require(std::ranges::all_of(tensor.values<float>(), [](float value) { return std::isfinite(value); }),
              ErrorKind::invalid_argument, "the model computes NaN or infinities in '{}' for samples from {} on", name,
              result.samples);
      result.histograms[id].add(tensor.values<float>());
      if (const auto layer = layer_of.find(id); layer != layer_of.end())
        add_channels(result.channels[id], tensor, channel_axis(*layer->second, tensor.rank()));
    }
    result.samples += batch.samples;
    if (progress) progress(result.samples);
    return true;
  });
  return result;
}

}  // namespace tessera::compress
