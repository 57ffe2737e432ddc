// How long an operator takes on a device, and what bounds it: the roofline model (Williams, Waterman, Patterson,
// "Roofline: An Insightful Visual Performance Model for Multicore Architectures", CACM 52(4), 2009).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cost/profile.h"
#include "cost/work.h"

namespace tessera::cost {

// none: nothing to do (a view).
enum class Bound : std::uint8_t { none, memory, arithmetic, overhead };
std::string_view name_of(Bound bound);  // "memory"

struct Estimate {
  double operations = 0, bytes = 0;
  double intensity = 0;  // operations per byte
  double ridge = 0;      // of the device: intensity from which on arithmetic bounds
  Bound bound = Bound::none;
  double arithmetic_seconds = 0;  // operations / (peak x utilisation)
  double memory_seconds = 0;      // bytes / bandwidth of the level that they come from
  double overhead_seconds = 0;
  double roof_seconds = 0;  // max(operations / peak, memory_seconds) + overhead: the roof
  double seconds = 0;       // predicted: the larger of both, times what measuring has taught, + overhead
  double factor = 1;        // what measuring has taught
  bool supported = true;    // false: the device has no such number type; float32's rate stands in
};

// The surroundings of an operator in a run.
struct Surroundings {
  double resident_bytes =
      0;  // weights and activations of the whole run; what exceeds the caches comes from memory each time. 0: unknown
};

// `utilisation` of the matrix units, see alignment.h.
Estimate estimate(const Work& work, const DeviceProfile& device, double utilisation = 1,
                  const Surroundings& surroundings = {});

// A sample of the kernel's correction from a measured time, given the estimate for the same work; nothing where
// starting the kernel took all of the time.
std::optional<Sample> sample_of(const Work& work, const Estimate& estimate, double seconds);

// The precisions that a request for one means on a device: operators other than products are computed in float16 at
// best, not in int8 or tf32.
WorkPrecision precisions_for(const DeviceProfile& device, Precision precision);

struct Total {
  double seconds = 0, roof_seconds = 0, operations = 0, bytes = 0;
  double memory_seconds = 0, arithmetic_seconds = 0, overhead_seconds = 0;  // time of operators bound by each
  double arithmetic_utilisation = 0, memory_utilisation = 0;  // share of the time that each would be busy at its peak
  Bound bound = Bound::none;                                  // what most of the time goes to
  double bound_share = 0;                                     // share of the time of operators with that bound
};
Total sum(const std::vector<Estimate>& estimates);

}  // namespace tessera::cost
