// Loops that do a single kind of work, to measure the peak rates of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_info.h"

namespace tessera::backends::cpu {

// Arithmetic in registers: twelve independent chains, enough to hide the latency of two instructions per cycle.
struct ComputeLoop {
  std::string what;          // "float32 fused multiply-add"
  std::string instructions;  // "avx512", "AVX512_BF16"
  base::Isa isa;             // the instruction set to run it with
  void (*run)(std::int64_t steps);
  double operations;  // per step; a multiply-add counts as two
};
// The arithmetic loops that this machine can run, lowest instruction set first.
std::vector<ComputeLoop> compute_loops();

// A loop over `count` floats of each array, a multiple of 128; arrays begin at multiples of 64 bytes.
struct StreamLoop {
  std::string what;
  void (*run)(float* a, const float* b, const float* c, std::int64_t count);
  int arrays;  // read and written; not counted: the reads that stores cause
};
// The loops read: a[0] = sum of b; copy: a = b; triad: a = b + 3 c; compiled for the active instruction set
// (machine/simd.h).
std::vector<StreamLoop> stream_loops();

}  // namespace tessera::backends::cpu
