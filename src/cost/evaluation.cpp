#include "cost/evaluation.h"

#include <algorithm>
#include <cmath>

namespace tessera::cost {
namespace {

Estimate estimate_aligned(const Work& work, const DeviceProfile& device, const Surroundings& surroundings,
                          Alignment& alignment) {
  alignment = align(work, device);
  return estimate(work, device, alignment.utilisation(), surroundings);
}

void add_padding(Layer& layer, const DeviceProfile& device, const Surroundings& surroundings) {
  if (!layer.alignment.applies) return;
  for (const std::int64_t multiple : {layer.alignment.multiple, layer.alignment.best_multiple}) {
    const std::optional<Work> more = padded(layer.work, multiple);
    if (!more) continue;
    Alignment alignment;
    const double gain = layer.estimate.seconds - estimate_aligned(*more, device, surroundings, alignment).seconds;
    if (layer.padded_multiple == 0 || gain > layer.padding_gain_seconds)
      layer.padding_gain_seconds = gain, layer.padded_multiple = multiple;
  }
}

// Arithmetic takes as long as memory when o b / (a b + w) is the ridge, with operations o and activation bytes a of the
// present batch and weight bytes w.
double batch_factor(const Layer& layer) {
  const double operations = layer.work.cost.operations, activations = layer.work.bytes() - layer.work.weight_bytes;
  const double margin = operations - layer.estimate.ridge * activations;
  return margin > 0 ? layer.estimate.ridge * layer.work.weight_bytes / margin : 0;
}

}  // namespace

Evaluation evaluate(std::vector<Work> works, const DeviceProfile& device, Precision precision,
                    const Surroundings& surroundings) {
  Evaluation evaluation{device, precision, {}, {}};
  std::vector<Estimate> estimates;
  for (Work& work : works) {
    Layer layer{.work = std::move(work)};
    layer.estimate = estimate_aligned(layer.work, device, surroundings, layer.alignment);
    layer.batch_factor = batch_factor(layer);
    add_padding(layer, device, surroundings);
    estimates.push_back(layer.estimate);
    evaluation.layers.push_back(std::move(layer));
  }
  evaluation.total = sum(estimates);
  return evaluation;
}

Work with_batch(const Work& work, double factor) {
  Work result = work;
  result.cost.operations *= factor;
  result.cost.bytes_read = (work.cost.bytes_read - work.weight_bytes) * factor + work.weight_bytes;
  result.cost.bytes_written *= factor;
  result.rows = static_cast<std::int64_t>(std::llround(static_cast<double>(work.rows) * factor));
  if (!result.gemm) return result;
  // The number of products of activations grows with the batch; products with weights get more rows.
  std::int64_t& grows =
      result.gemm->fixed_n || result.gemm->fixed_k || result.gemm->count == 1 ? result.gemm->m : result.gemm->count;
  grows = std::max<std::int64_t>(1, std::llround(static_cast<double>(grows) * factor));
  return result;
}

}  // namespace tessera::cost
