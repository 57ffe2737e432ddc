// Reductions of rows of floats, for all kernels that need them (softmax, normalisations, Reduce*). Included once per
// instruction set, like math.h.
//
// A row is summed in four vectors of partial sums, which are then added in a fixed order: the result depends only on
// the instruction set and the length.
#if defined(TESSERA_BACKENDS_CPU_VECTOR_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_VECTOR_ROWS_H
#undef TESSERA_BACKENDS_CPU_VECTOR_ROWS_H
#else
#define TESSERA_BACKENDS_CPU_VECTOR_ROWS_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

namespace rows {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

HWY_INLINE std::int64_t lane_count() {
  return static_cast<std::int64_t>(hn::Lanes(D()));
}
HWY_INLINE V set(float value) {
  return hn::Set(D(), value);
}

// The operations of a reduction: adding an element, and joining partial results.
struct Sum {
  static constexpr float neutral = 0;
  HWY_INLINE V map(V x) const { return x; }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
};
struct SumOfMagnitudes : Sum {
  HWY_INLINE V map(V x) const { return hn::Abs(x); }
};
struct SumOfSquares : Sum {
  HWY_INLINE V map(V x) const { return hn::Mul(x, x); }
};
// Sum of (x - centre)².
struct CentredSumOfSquares : Sum {
  V centre;
  HWY_INLINE V map(V x) const {
    const V difference = hn::Sub(x, centre);
    return hn::Mul(difference, difference);
  }
};
struct ProductOfRow : Sum {
  static constexpr float neutral = 1;
  HWY_INLINE V join(V a, V b) const { return hn::Mul(a, b); }
};
// The largest or smallest element; NaN if any is NaN.
struct Largest : Sum {
  static constexpr float neutral = -std::numeric_limits<float>::infinity();
  HWY_INLINE V join(V a, V b) const { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a); }
};
struct Smallest : Sum {
  static constexpr float neutral = std::numeric_limits<float>::infinity();
  HWY_INLINE V join(V a, V b) const { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(b)), b, a); }
};

// Joins all lanes as a tree: the upper half with the lower half, and so on.
template <class Reduction>
HWY_INLINE float join_lanes(const Reduction& reduction, V partial) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const D d;
  partial = reduction.join(partial, hn::ConcatUpperUpper(d, partial, partial));
#if HWY_TARGET == HWY_AVX3
  partial = reduction.join(partial, hn::SwapAdjacentBlocks(partial));
#endif
  partial = reduction.join(partial, hn::Shuffle1032(partial));
  return hn::GetLane(reduction.join(partial, hn::Shuffle2301(partial)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(partial, D(), lanes);
  for (std::size_t width = hn::Lanes(D()) / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) {
      lanes[i] = hn::GetLane(reduction.join(set(lanes[i]), set(lanes[i + width])));
    }
  }
  return lanes[0];
#endif
}

template <class Reduction>
HWY_INLINE float reduce(const Reduction& reduction, const float* x, std::int64_t count) {
  const D d;
  const std::int64_t lanes = lane_count();
  const V neutral = set(Reduction::neutral);
  V a = neutral;
  std::int64_t i = 0;
  if (count >= 4 * lanes) {
    V b = neutral, c = neutral, e = neutral;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      a = reduction.join(a, reduction.map(hn::LoadU(d, x + i)));
      b = reduction.join(b, reduction.map(hn::LoadU(d, x + i + lanes)));
      c = reduction.join(c, reduction.map(hn::LoadU(d, x + i + 2 * lanes)));
      e = reduction.join(e, reduction.map(hn::LoadU(d, x + i + 3 * lanes)));
    }
    a = reduction.join(reduction.join(a, b), reduction.join(c, e));
  }
  for (; i + lanes <= count; i += lanes) a = reduction.join(a, reduction.map(hn::LoadU(d, x + i)));
  if (i < count) {
    const Mask rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
    a = reduction.join(a, hn::IfThenElse(rest, reduction.map(hn::MaskedLoad(rest, d, x + i)), neutral));
  }
  return join_lanes(reduction, a);
}

}  // namespace rows

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_VECTOR_ROWS_H
