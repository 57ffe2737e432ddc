// The options of a simulated device, parsed from its name: "simulated:PROFILE[,KEY=VALUE…]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cost/profile.h"

namespace tessera::backends::simulated {

// The device whose kernels compute the results. none: nothing is computed and every result is zeros, for models of
// which only durations and memory matter.
enum class Compute : std::uint8_t { reference, cpu, none };

// Faults to inject. Allocations and launches are counted from 1 over the life of the device; 0: none fails.
struct Faults {
  std::int64_t failing_allocation = 0, failing_launch = 0;
  double copy_slowdown = 1;  // factor on the duration of copies between host and device
};

struct Options {
  cost::DeviceProfile profile;
  std::string profile_name;  // as given: a built-in name or the path of a file
  Compute compute = Compute::reference;
  std::int64_t memory_bytes = 0;  // capacity
  std::uint64_t seed = 0;         // orders operations that could start at the same time
  std::int64_t number = 0;        // distinguishes devices with equal options
  std::int64_t streams = 0;       // DeviceProperties::streams; parse_options replaces 0 by what suits the profile
  std::int64_t shuffle = 0;       // a seed of pauses that let streams interleave in other orders; 0: none
  bool checks_memory = true;      // reports operations that use memory as CUDA forbids (memory_checker.h)
  Faults faults;
};

inline constexpr std::string_view kDeviceKind = "simulated";

// Throws Error(invalid_argument) for an unknown profile (naming the most similar one), an unknown key or an invalid
// value, and whatever load_profile throws for a file.
Options parse_options(std::string_view name);
// The name with every option that differs from its default, in a fixed order: equal devices have equal names.
std::string name_of(const Options& options);

}  // namespace tessera::backends::simulated
