// Loops that do nothing but one kind of work, to measure what the machine can do at most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_info.h"

namespace tessera::backends::cpu {

// Arithmetic in registers: twelve independent chains, enough to hide the latency of two instructions a cycle.
struct ComputeLoop {
  std::string what;          // "float32 fused multiply-add"
  std::string instructions;  // "avx512", "AVX512_BF16"
  base::Isa isa;             // to run it with
  void (*run)(std::int64_t steps);
  double operations;  // a step; a multiply-add counts two
};
// Those that this machine has, lowest set first.
std::vector<ComputeLoop> compute_loops();

// Memory streams over `count` floats of each array, a multiple of 128; arrays begin at multiples of 64 bytes.
struct StreamLoop {
  std::string what;
  void (*run)(float* a, const float* b, const float* c, std::int64_t count);
  int arrays;  // read and written; what a store reads before it is not counted
};
// read: a[0] = sum of b; copy: a = b; triad: a = b + 3 c. With the set in use; see backends/cpu/machine/simd.h.
std::vector<StreamLoop> stream_loops();

}  // namespace tessera::backends::cpu
