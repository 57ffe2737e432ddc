// Measures the peak rates of this machine: arithmetic by element type, and bandwidth by level of the memory hierarchy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/machine/roof_kernels.h"
#include "base/threads/thread_pool.h"

namespace tessera::backends::cpu {

// The effort for each measured rate: the best of that many runs, each at least that long.
struct RoofEffort {
  double seconds = 0.05;
  int runs = 5;
};

// Seconds that `threads` threads take to run body(thread) at the same time. The caller holds a core.
double timed_on(int threads, base::RangeFunction body);

// A block of fresh pages that nothing has touched yet. Throws Error(over_budget).
class Pages {
 public:
  Pages(std::int64_t bytes, bool huge);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return begin_; }
  bool advised() const { return advised_; }  // whether the system accepted the advice for huge pages

 private:
  std::int64_t bytes_;
  void* base_;
  std::byte* begin_;
  bool advised_;
};

// Operations per second of all threads together.
double measure_compute(const ComputeLoop& loop, int threads, RoofEffort effort = {});

struct MemoryLevel {
  std::string name;         // "L1" … "DRAM"
  std::int64_t size_bytes;  // of the cache; 0 for DRAM
  std::int64_t test_bytes;  // of all arrays of one thread
};
// The memory levels of this machine, nearest first, with the cache sizes of base::cpu_info().
std::vector<MemoryLevel> memory_levels(int threads);

struct Bandwidth {
  double bytes_per_second = 0;
  double bytes = 0;  // of all arrays of all threads
};
Bandwidth measure_bandwidth(const MemoryLevel& level, const StreamLoop& loop, int threads, RoofEffort effort = {});

}  // namespace tessera::backends::cpu
