// A loop over floats by whole vectors and a masked remainder. Included once per instruction set, like
// element_wise/math.h.
#if defined(TESSERA_BACKENDS_CPU_VECTOR_LOOP_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_VECTOR_LOOP_H
#undef TESSERA_BACKENDS_CPU_VECTOR_LOOP_H
#else
#define TESSERA_BACKENDS_CPU_VECTOR_LOOP_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

// Calls body(i, load, store) for each vector of `count` floats, which begins at element i: load(pointer) returns a
// vector and store(vector, pointer) writes one. For the remainder, load sets the lanes behind the last element to zero
// and store does not write them.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body(
        i, [&](const float* x) HWY_ATTR { return hn::LoadU(d, x); },
        [&](V value, float* y) HWY_ATTR { hn::StoreU(value, d, y); });
  }
  if (i == count) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(count - i));
  body(
      i, [&](const float* x) HWY_ATTR { return hn::MaskedLoad(mask, d, x); },
      [&](V value, float* y) HWY_ATTR { hn::BlendedStore(value, mask, d, y); });
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_VECTOR_LOOP_H
