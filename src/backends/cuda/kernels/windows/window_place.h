// The element of y that a thread computes, and the windows over x.
#pragma once

#include "backends/cuda/kernels/windows/windows.h"

namespace tessera::cuda {

// An element of y by its number.
struct WindowPlace {
  int batch, output, row, column;
};

__device__ __forceinline__ WindowPlace window_place(const WindowGeometry& g, std::int64_t element) {
  WindowPlace place;
  place.column = static_cast<int>(element % g.y_columns);
  element /= g.y_columns;
  place.row = static_cast<int>(element % g.y_rows);
  element /= g.y_rows;
  place.output = static_cast<int>(element % g.outputs);
  place.batch = static_cast<int>(element / g.outputs);
  return place;
}

__device__ __forceinline__ std::int64_t window_elements(const WindowGeometry& g) {
  return static_cast<std::int64_t>(g.batch) * g.outputs * g.y_rows * g.y_columns;
}

}  // namespace tessera::cuda
