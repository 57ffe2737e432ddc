#include "backends/cpu/convolutions/transposed_phases.h"

#include <algorithm>

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

std::vector<AxisPhase> phases_of(const ops::WindowAxis& axis) {
  std::vector<AxisPhase> phases;
  for (std::int64_t remainder = 0; remainder < axis.stride; ++remainder) {
    AxisPhase phase;
    // The least o >= 0 with (o + pad) mod stride = remainder; padding may be negative.
    phase.first = ((remainder - axis.pad_begin) % axis.stride + axis.stride) % axis.stride;
    phase.count = phase.first < axis.output ? base::ceil_divide(axis.output - phase.first, axis.stride) : 0;
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t distance = phase.first + axis.pad_begin - k * axis.dilation;
      if (distance % axis.stride == 0) phase.taps.push_back({k, distance / axis.stride});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::optional<ops::WindowAxis> convolution_axis(const ops::WindowAxis& axis, const AxisPhase& phase) {
  if (phase.taps.empty() || phase.taps.back().base > 0) return std::nullopt;
  ops::WindowAxis result{.input = axis.input,
                         .output = phase.count,
                         .kernel = static_cast<std::int64_t>(phase.taps.size()),
                         .pad_begin = -phase.taps.back().base};
  if (result.kernel > 1) result.dilation = phase.taps[0].base - phase.taps[1].base;
  result.pad_end = std::max<std::int64_t>(0, result.output - 1 + result.extent() - result.pad_begin - result.input);
  return result;
}

}  // namespace tessera::backends::cpu
