// The CPU of this process as the cost model sees it before anybody calibrated it: what its description (base::CpuInfo)
// says, times rates that cores of its kind have. Passes compare moving data with computing by it.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"
#include "ops/core/op.h"

namespace tessera::cost {

struct Machine {
  // Operations per second of one core, and bytes per second that it gets from memory. Their ratio, and that with each
  // cache, is what decides; absolute figures are an order of magnitude.
  double operations_per_second = 0, bytes_per_second = 0;
  // A cache that cores share: what this process may count on of it, and bytes per second that one core gets from it.
  std::int64_t shared_cache_bytes = 0;
  double shared_bytes_per_second = 0;
  // What a core's own caches hold of a value beside the weights and the other operands of the layers that write and
  // read it. A larger value comes from further away when it is read again.
  std::int64_t near_cache_bytes = 0;

  // Of a core with AVX-512 and the usual caches, so that what passes decide in a test depends on no machine.
  Machine();
  explicit Machine(const base::CpuInfo& info);

  // Operations that take a core as long as one byte from where a value of so many bytes lies, when it is more than the
  // core's own caches hold.
  double ridge(std::int64_t bytes) const;
  // The bytes from memory that take a core as long as the work, by the roofline model: what moves most or computes most
  // decides.
  double bytes_from_memory(const ops::Cost& work) const;
};

}  // namespace tessera::cost
