// The statistics of a row of floats, and its normalisation. Included once per instruction set, like vector_rows.h.
#if defined(TESSERA_BACKENDS_CPU_NORMALISATION_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_NORMALISATION_ROWS_H
#undef TESSERA_BACKENDS_CPU_NORMALISATION_ROWS_H
#else
#define TESSERA_BACKENDS_CPU_NORMALISATION_ROWS_H
#endif

#include "backends/cpu/rows/vector_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

namespace rows {

// The mean square of the differences from `centre`.
HWY_INLINE float mean_square_around(const float* x, std::int64_t count, float centre) {
  CentredSumOfSquares squares;
  squares.centre = set(centre);
  return reduce(squares, x, count) / static_cast<float>(count);
}

template <bool shifts>
HWY_INLINE void scale_row(const float* x, float* y, std::int64_t count, V mean, V factor, const float* scale,
                          const float* shift) {
  const D d;
  std::int64_t i = 0;
  for (; i + lane_count() <= count; i += lane_count()) {
    const V centred = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean), factor);
    const V s = hn::LoadU(d, scale + i);
    hn::StoreU(shifts ? hn::MulAdd(centred, s, hn::LoadU(d, shift + i)) : hn::Mul(centred, s), d, y + i);
  }
  if (i == count) return;
  const Mask rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  const V centred = hn::Mul(hn::Sub(hn::MaskedLoad(rest, d, x + i), mean), factor);
  const V s = hn::MaskedLoad(rest, d, scale + i);
  const V result = shifts ? hn::MulAdd(centred, s, hn::MaskedLoad(rest, d, shift + i)) : hn::Mul(centred, s);
  hn::BlendedStore(result, rest, d, y + i);
}

// y = (x - mean) * factor * scale + shift, with one scale and shift per element; null shift: none. y may be x.
HWY_INLINE void scale_and_shift(const float* x, float* y, std::int64_t count, float mean, float factor,
                                const float* scale, const float* shift) {
  if (shift != nullptr) scale_row<true>(x, y, count, set(mean), set(factor), scale, shift);
  else scale_row<false>(x, y, count, set(mean), set(factor), scale, shift);
}

}  // namespace rows

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_NORMALISATION_ROWS_H
