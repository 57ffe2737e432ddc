// The arguments of the kernels of reduction.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kReductionThreads = 256, kReductionAxes = 4;

enum class ReductionKind : int { sum, mean, maximum, minimum, product, l1, l2, sum_of_squares, log_sum, log_sum_exp };

// y[kept] = reduction over all positions `reduced` of x[kept · kept_strides + reduced · reduced_strides]. Axes are
// ordered from the outermost; unused ones have size 1.
struct ReductionParameters {
  const void* x;
  void* y;
  std::int64_t kept_sizes[kReductionAxes], kept_strides[kReductionAxes];
  std::int64_t reduced_sizes[kReductionAxes], reduced_strides[kReductionAxes];
  std::int64_t results, reduced;  // products of the sizes
  ReductionKind kind;
  bool by_threads;  // each thread reduces a result of its own; otherwise each block does
};

// y[outer, inner] = the position in `length` of the extreme of x[outer, length, inner]. Not-a-number is passed over,
// except at position 0, where nothing is better.
struct ArgExtremeParameters {
  const void* x;
  std::int64_t* y;
  std::int64_t results, length, inner;
  bool largest, last;  // whether the last of equal elements is taken
};

}  // namespace tessera::cuda
