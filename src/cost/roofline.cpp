#include "cost/roofline.h"

#include <algorithm>

namespace tessera::cost {
namespace {

// Seconds to transfer the bytes of an operator. On a GPU they come from memory. On a CPU activations come from the
// nearest cache that holds them, and weights from the nearest that holds everything the run touches, since all of that
// passes through the caches between two uses.
double seconds_for_bytes(const Work& work, const DeviceProfile& device, const Surroundings& surroundings) {
  if (device.kind == DeviceKind::gpu) return work.bytes() / device.bandwidth;
  const auto bandwidth_for = [&](double bytes) {
    for (const Cache& cache : device.caches) {
      if (cache.bytes_per_second > 0 && bytes <= static_cast<double>(cache.bytes)) return cache.bytes_per_second;
    }
    return device.bandwidth;
  };
  const double activations = work.bytes() - work.weight_bytes;
  return activations / bandwidth_for(activations) +
         work.weight_bytes / bandwidth_for(std::max(work.weight_bytes, surroundings.resident_bytes));
}

}  // namespace

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::none:
      return "nothing";
    case Bound::memory:
      return "memory";
    case Bound::arithmetic:
      return "arithmetic";
    case Bound::overhead:
      return "overhead";
  }
  return "";
}

Estimate estimate(const Work& work, const DeviceProfile& device, double utilisation, const Surroundings& surroundings) {
  Estimate result;
  result.operations = work.cost.operations;
  result.bytes = work.bytes();
  double peak = device.peak(work.precision, work.product);
  result.supported = peak > 0;
  if (!result.supported) peak = device.vector_rates.f32;
  result.ridge = peak / device.bandwidth;
  if (result.operations <= 0 && result.bytes <= 0) return result;
  result.intensity = result.bytes > 0 ? result.operations / result.bytes : 0;
  result.arithmetic_seconds = result.operations / (peak * utilisation);
  result.memory_seconds = seconds_for_bytes(work, device, surroundings);
  result.overhead_seconds = device.overhead_seconds;
  const double work_seconds = std::max(result.arithmetic_seconds, result.memory_seconds);
  result.roof_seconds = std::max(result.operations / peak, result.memory_seconds) + device.overhead_seconds;
  if (!work.kernel.empty()) result.factor = device.correction.factor(work.kernel, work.shape_class());
  result.seconds = work_seconds * result.factor + device.overhead_seconds;
  if (work_seconds * result.factor < device.overhead_seconds) result.bound = Bound::overhead;
  else result.bound = result.arithmetic_seconds >= result.memory_seconds ? Bound::arithmetic : Bound::memory;
  return result;
}

std::optional<Sample> sample_of(const Work& work, const Estimate& estimate, double seconds) {
  const double roof = std::max(estimate.arithmetic_seconds, estimate.memory_seconds),
               spent = seconds - estimate.overhead_seconds;
  if (work.kernel.empty() || roof <= 0 || spent <= 0) return std::nullopt;
  return Sample{work.kernel, work.shape_class(), spent / roof};
}

WorkPrecision precisions_for(const DeviceProfile& device, Precision precision) {
  if (precision == Precision::int8)
    return {precision,
            device.kind == DeviceKind::gpu && device.supports(Precision::f16) ? Precision::f16 : Precision::f32};
  return {precision, precision == Precision::tf32 ? Precision::f32 : precision};
}

Total sum(const std::vector<Estimate>& estimates) {
  Total total;
  for (const Estimate& estimate : estimates) {
    total.seconds += estimate.seconds;
    total.roof_seconds += estimate.roof_seconds;
    total.operations += estimate.operations;
    total.bytes += estimate.bytes;
    total.arithmetic_utilisation += estimate.arithmetic_seconds;
    total.memory_utilisation += estimate.memory_seconds;
    if (estimate.bound == Bound::memory) total.memory_seconds += estimate.seconds;
    if (estimate.bound == Bound::arithmetic) total.arithmetic_seconds += estimate.seconds;
    if (estimate.bound == Bound::overhead) total.overhead_seconds += estimate.seconds;
  }
  if (total.seconds <= 0) return total;
  total.arithmetic_utilisation = std::min(1.0, total.arithmetic_utilisation / total.seconds);
  total.memory_utilisation = std::min(1.0, total.memory_utilisation / total.seconds);
  const double most = std::max({total.memory_seconds, total.arithmetic_seconds, total.overhead_seconds});
  total.bound = most == total.overhead_seconds ? Bound::overhead
                : most == total.memory_seconds ? Bound::memory
                                               : Bound::arithmetic;
  total.bound_share = most / total.seconds;
  return total;
}

}  // namespace tessera::cost
