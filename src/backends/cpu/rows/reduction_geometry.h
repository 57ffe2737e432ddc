// The layout of the elements of a reduction over any axes. Neighbouring axes that are both kept or both reduced are
// merged; axes of size 1 are dropped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::backends::cpu {

struct ReductionAxis {
  std::int64_t count, stride;
};

struct ReductionGeometry {
  ReductionGeometry(const Shape& shape, std::span<const std::int64_t> axes);

  std::vector<ReductionAxis> kept, reduced;  // without the innermost axis of the tensor; outermost first
  bool along_rows = false;                   // whether the innermost axis is reduced
  std::int64_t line = 1;                     // elements of the innermost axis
  std::int64_t group = 1;                    // elements per result
  std::int64_t results = 1;                  // results, or lines of results if the innermost axis is kept
};

// The offset of element `index` of axes, in row-major order.
std::int64_t offset_of(std::span<const ReductionAxis> axes, std::int64_t index);

// Calls body(offset) for every index over the first `count` axes.
template <typename Body>
void for_each_offset(const ReductionAxis* axes, std::size_t count, std::int64_t offset, const Body& body) {
  if (count == 0) return body(offset);
  for (std::int64_t i = 0; i < axes->count; ++i) for_each_offset(axes + 1, count - 1, offset + i * axes->stride, body);
}

}  // namespace tessera::backends::cpu
