// Strided copies with padding, for kernels that slide windows along a line. A Highway inner header: include it after
// <hwy/highway.h> in a file that hwy/foreach_target.h repeats.
#if defined(TESSERA_BACKENDS_CPU_COPY_LINE_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_COPY_LINE_H
#undef TESSERA_BACKENDS_CPU_COPY_LINE_H
#else
#define TESSERA_BACKENDS_CPU_COPY_LINE_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loads lanes [low, high) from memory and sets the others to `fill`; no other lane is read.
template <class D, class V>
HWY_INLINE V load_range(D d, const float* from, std::int64_t low, std::int64_t high, V fill) {
  constexpr std::int64_t kLanes = HWY_LANES(float);
  low = std::clamp<std::int64_t>(low, 0, kLanes);
  high = std::clamp<std::int64_t>(high, low, kLanes);
  if (low == 0 && high == kLanes) return hn::LoadU(d, from);
  if (low >= high) return fill;  // Highway's scalar MaskedLoad reads before it masks
  const auto mask =
      hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(low)), hn::FirstN(d, static_cast<std::size_t>(high)));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), fill);
}

// to[i] = line[start + i * stride] for i in [0, count), or `fill` if that position is outside [0, length). Writes whole
// vectors: up to one vector less one element beyond `count`.
HWY_INLINE void copy_line(const float* line, std::int64_t length, std::int64_t start, std::int64_t stride,
                          std::int64_t count, float fill, float* to) {
  constexpr std::int64_t kLanes = HWY_LANES(float);
  const hn::ScalableTag<float> d;
  const auto padding = hn::Set(d, fill);
  if (stride == 1) {
    const std::int64_t low = -start, high = std::min(length - start, count);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      hn::StoreU(load_range(d, line + (start + i), low - i, high - i, padding), d, to + i);
    }
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    const std::int64_t low = -start, high = std::min(length - start, 2 * count - 1);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const std::int64_t j = 2 * i;
      const auto first = load_range(d, line + (start + j), low - j, high - j, padding);
      const auto second = load_range(d, line + (start + j + kLanes), low - j - kLanes, high - j - kLanes, padding);
      hn::StoreU(hn::ConcatEven(d, second, first), d, to + i);
    }
    return;
  }
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = start + i * stride;
    to[i] = position >= 0 && position < length ? line[position] : fill;
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
