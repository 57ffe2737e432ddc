// The arguments of the kernels of gather.h.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/index_fault.h"

namespace tessera::cuda {

inline constexpr int kGatherThreads = 256, kGatherAxes = 6;

// Elements of `data` at positions that indices give, against dense `values`: values[outer, tuple, inner] and
// data[outer, place, inner], where the place of a tuple is the sum of its indices × strides. Gathering copies from data
// to values, scattering from values to data. Negative indices count from the end of their axis; elements at an index
// outside its axis are skipped (scattering) or left unwritten (gathering), and `fault` is set.
struct GatherParameters {
  const void* from;
  void* to;
  const void* indices;  // int32 or int64, [outer, tuples, width], or [tuples, width] for all outer positions
  IndexFault* fault;
  std::int64_t tuples, inner, count;  // count = outer × tuples × inner
  std::int64_t data_outer_stride, index_outer_stride;
  std::int64_t sizes[kGatherAxes], strides[kGatherAxes];  // of the axes of data that a tuple indexes, in elements
  int width;
  bool wide;  // the indices are int64
};

// values[place] is data[place] with one coordinate replaced by indices[place]. Axes are ordered from the outermost;
// unused ones have size 1.
struct GatherElementsParameters {
  const void* from;
  void* to;
  const void* indices;
  IndexFault* fault;
  std::int64_t sizes[kGatherAxes], strides[kGatherAxes];  // sizes of indices; strides of data, 0 along the axis
  std::int64_t axis_size, axis_stride, count;
  bool wide;
};

}  // namespace tessera::cuda
