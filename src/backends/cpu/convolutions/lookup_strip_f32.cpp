// Sums each element of a strip in the order of the lookups, so that results do not depend on the strips.
#include "backends/cpu/convolutions/lookup_strip_f32.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/lookup_strip_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

template <int vectors>
void strip(const LookupStrip& given) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[vectors];
#pragma GCC unroll 16
  for (V& each : sum) each = hn::Set(d, given.start);
  for (std::int64_t i = 0; i < given.count; ++i) {
    const V coefficient = hn::Set(d, given.coefficients[i]);
    const float* line = given.lines + given.offsets[i];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sum[v] = hn::MulAdd(hn::LoadU(d, line + v * lanes), coefficient, sum[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) hn::StoreU(sum[v], d, given.sums + v * lanes);
}

void finish(const float* sums, const float* addend, float* y, std::int64_t count, float low, float high) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto bounded = [&](V value) HWY_ATTR { return math::at_most(d, math::at_least(d, value, low), high); };
  std::int64_t p = 0;
  for (; p + lanes <= count; p += lanes) {
    V value = hn::LoadU(d, sums + p);
    if (addend != nullptr) value = hn::Add(value, hn::LoadU(d, addend + p));
    hn::StoreU(bounded(value), d, y + p);
  }
  if (p == count) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(count - p));
  V value = hn::MaskedLoad(mask, d, sums + p);
  if (addend != nullptr) value = hn::Add(value, hn::MaskedLoad(mask, d, addend + p));
  hn::BlendedStore(bounded(value), mask, d, y + p);
}

void copy_rows(const RowCopy& copy) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto below = [&](std::int64_t position) HWY_ATTR {
    return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(position, 0, lanes)));
  };
  for (std::int64_t p = 0; p < copy.count; p += lanes) {
    const auto loaded = hn::AndNot(below(copy.begin - p), below(copy.end - p)), stored = below(copy.count - p);
    const float* from = copy.from + p;
    float* to = copy.to + p;
    for (std::int64_t row = 0; row < copy.rows; ++row, from += copy.pitch, to += copy.count)
      hn::BlendedStore(hn::MaskedLoad(loaded, d, from), stored, d, to);
  }
}

template <int... less_one>
LookupFunctions functions_for(std::integer_sequence<int, less_one...>) {
  return {static_cast<int>(hn::Lanes(D())), {strip<less_one + 1>...}, finish, copy_rows};
}

}  // namespace

LookupFunctions functions_of_lookups() {
  return functions_for(std::make_integer_sequence<int, kMostLookupVectors>());
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(functions_of_lookups);

LookupFunctions lookup_functions() {
  return HWY_DYNAMIC_DISPATCH(functions_of_lookups)();
}

}  // namespace tessera::backends::cpu
#endif
