// Iterates over the lines of a tensor along one axis.
#pragma once

#include <cstdint>

#include "backends/host/movement.h"

namespace tessera::backends::reference {

using namespace host;

// Calls body(offset, length, stride) for every line of `shape` along `axis`: its elements are at offset + i * stride.
template <typename Body>
void for_each_line(const Shape& shape, std::int64_t axis, Body body) {
  const AxisView view = axis_view(shape, axis);
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      body(outer * view.length * view.inner + inner, view.length, view.inner);
    }
  }
}

}  // namespace tessera::backends::reference
