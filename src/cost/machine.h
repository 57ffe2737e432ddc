// The machine by which passes weigh moving data against computing: one core of this process's CPU before any
// calibration, from its description (base::CpuInfo) and typical rates of such cores, or one multiprocessor of a device
// that there is a profile of.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"
#include "ops/core/op.h"

namespace tessera::cost {

struct DeviceProfile;

struct Machine {
  // Operations per second of one core, and bytes per second that it gets from memory. Decisions depend on their ratio,
  // and on the ratio for each cache; the absolute figures are only orders of magnitude.
  double operations_per_second = 0, bytes_per_second = 0;
  // A cache that cores share: the bytes of it that this process may count on, and bytes per second that one core gets.
  std::int64_t shared_cache_bytes = 0;
  double shared_bytes_per_second = 0;
  // Bytes of a value that fit into a core's own caches beside the weights and the other operands of the layers that
  // write and read it. A larger value is read again from a farther level.
  std::int64_t near_cache_bytes = 0;

  // A core with AVX-512 and the usual caches, so that the decisions of passes in tests do not depend on the machine.
  Machine();
  explicit Machine(const base::CpuInfo& info);
  // One multiprocessor of a device with its share of the memory's bandwidth.
  explicit Machine(const DeviceProfile& device);

  // Operations that take one core as long as reading one byte of a value of `bytes` bytes that does not fit into its
  // own caches.
  double ridge(std::int64_t bytes) const;
  // The bytes from memory that take one core as long as the work takes by the roofline model, that is, as the longer of
  // its transfers and its arithmetic.
  double bytes_from_memory(const ops::Cost& work) const;
};

}  // namespace tessera::cost
