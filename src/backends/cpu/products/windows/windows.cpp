#include "backends/cpu/products/windows/windows.h"

#include <algorithm>

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

bool is_pointwise(const ChannelsLastGeometry& geometry) {
  return std::ranges::all_of(geometry.axes, [](const ops::WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.output == axis.input;
  });
}

ChannelsLastGeometry rows_geometry(const Shape& x) {
  ChannelsLastGeometry result{.channels = x.back()};
  for (ops::WindowAxis& axis : result.axes) axis.input = axis.output = 1;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) result.batch = base::checked_multiply(result.batch, x[i]);
  return result;
}

}  // namespace tessera::backends::cpu
