// The phases of a transposed convolution along an axis.
//
// Output position o is reached by tap k where o + pad - k · dilation is a multiple of the stride. Positions with the
// same remainder (o + pad) mod stride, a phase, are reached by the same taps, and the input positions under them are
// neighbours: each phase is a convolution of stride 1 with its share of the taps. With stride 1 there is one phase of
// all taps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

// The positions of one phase (first, first + stride, …) and the taps that reach them. For the j-th of these positions,
// tap k reads input position base + j; bases fall by a constant distance.
struct AxisPhase {
  std::int64_t first = 0, count = 0;
  struct Tap {
    std::int64_t index, base;
  };
  std::vector<Tap> taps;
};

// The phases of an axis, one per remainder. `output` of the axis counts positions of the transposed convolution's
// result.
std::vector<AxisPhase> phases_of(const ops::WindowAxis& axis);

// The phase as the axis of a convolution of stride 1 whose taps are those of the phase in reverse order; nothing if the
// phase has no taps or would have negative padding.
std::optional<ops::WindowAxis> convolution_axis(const ops::WindowAxis& axis, const AxisPhase& phase);

}  // namespace tessera::backends::cpu
