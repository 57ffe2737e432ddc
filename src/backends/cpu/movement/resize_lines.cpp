#include "backends/cpu/movement/resize_lines.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/movement/resize_lines.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = a * (1 - fraction) + b * fraction
void blend_rows(const float* a, const float* b, float fraction, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, fraction), g = hn::Set(d, 1 - fraction);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), g, hn::Mul(hn::LoadU(d, b + i), f)), d, y + i);
  }
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  const auto left = hn::MaskedLoad(rest, d, a + i), right = hn::MaskedLoad(rest, d, b + i);
  hn::BlendedStore(hn::MulAdd(left, g, hn::Mul(right, f)), rest, d, y + i);
}

// y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i]
void blend_columns(const float* x, const std::int32_t* low, const std::int32_t* high, const float* fraction, float* y,
                   std::int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto a = hn::GatherIndex(d, x, hn::LoadU(di, low + i)), b = hn::GatherIndex(d, x, hn::LoadU(di, high + i));
    const auto f = hn::LoadU(d, fraction + i);
    hn::StoreU(hn::MulAdd(a, hn::Sub(one, f), hn::Mul(b, f)), d, y + i);
  }
  for (; i < count; ++i) y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i];
}

// A multiplication and an addition of doubles with two roundings: compilers do not fuse what Highway writes as two
// intrinsics on x86, and the scalar remainder uses the same functions.
template <class D, class V>
HWY_INLINE V blend(D d, V a, V b, V fraction) {
  return hn::Add(hn::Mul(hn::Sub(hn::Set(d, 1.0), fraction), a), hn::Mul(fraction, b));
}

template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::uint8_t* x, bool is_signed) {
  const hn::Rebind<std::int32_t, D> di;
  const hn::Rebind<std::uint8_t, D> du8;
  const hn::Rebind<std::int8_t, D> di8;
  const auto bytes = hn::LoadU(du8, x);
  return hn::PromoteTo(d, is_signed ? hn::PromoteTo(di, hn::BitCast(di8, bytes)) : hn::PromoteTo(di, bytes));
}

// Rounds to nearest, ties to even: near 1.5 * 2^52 a double has no fraction, and its low bits are the integer.
template <class D, class V>
HWY_INLINE void store_bytes(D d, V v, std::uint8_t* y) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> du8;
  const auto shifted = hn::BitCast(du, hn::Add(v, hn::Set(d, 6755399441055744.0)));
  hn::StoreU(hn::TruncateTo(du8, hn::And(shifted, hn::Set(du, 255))), du8, y);
}

// Calls body(d, i) for each vector of doubles, then for each element of the remainder.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, Body body) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  for (; i < count; ++i) body(hn::CappedTag<double, 1>(), i);
}

void blend_byte_rows(const std::uint8_t* a, const std::uint8_t* b, bool is_signed, double fraction, double* y,
                     std::int64_t count) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto left = load_bytes(d, a + i, is_signed), right = load_bytes(d, b + i, is_signed);
    hn::StoreU(blend(d, left, right, hn::Set(d, fraction)), d, y + i);
  });
}

void blend_to_bytes(const double* a, const double* b, double fraction, std::uint8_t* y, std::int64_t count) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    store_bytes(d, blend(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::Set(d, fraction)), y + i);
  });
}

void blend_columns_to_bytes(const double* x, const std::int32_t* low, const std::int32_t* high, const double* fraction,
                            std::uint8_t* y, std::int64_t count) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::int32_t, D> di32;
    const auto from = [&](const std::int32_t* index)
                          HWY_ATTR { return hn::GatherIndex(d, x, hn::PromoteTo(di, hn::LoadU(di32, index + i))); };
    store_bytes(d, blend(d, from(low), from(high), hn::LoadU(d, fraction + i)), y + i);
  });
}

template <typename T>
void double_typed(const void* from, void* to, std::int64_t count) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreInterleaved2(v, v, d, y + 2 * i);
  }
  for (; i < count; ++i) y[2 * i] = y[2 * i + 1] = x[i];
}

void double_elements(const void* x, void* y, std::int64_t count, std::int64_t bytes) {
  if (bytes == 1) double_typed<std::uint8_t>(x, y, count);
  else if (bytes == 2) double_typed<std::uint16_t>(x, y, count);
  else if (bytes == 4) double_typed<std::uint32_t>(x, y, count);
  else double_typed<std::uint64_t>(x, y, count);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(blend_rows);
HWY_EXPORT(blend_columns);
HWY_EXPORT(blend_byte_rows);
HWY_EXPORT(blend_to_bytes);
HWY_EXPORT(blend_columns_to_bytes);
HWY_EXPORT(double_elements);

template <typename T>
void pick_typed(const void* x, const std::int32_t* low, void* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) static_cast<T*>(y)[i] = static_cast<const T*>(x)[low[i]];
}

}  // namespace

void blend_rows(const float* a, const float* b, float fraction, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(a, b, fraction, y, count);
}

void blend_columns(const float* x, const std::int32_t* low, const std::int32_t* high, const float* fraction, float* y,
                   std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_columns)(x, low, high, fraction, y, count);
}

void blend_byte_rows(const std::uint8_t* a, const std::uint8_t* b, bool is_signed, double fraction, double* y,
                     std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_byte_rows)(a, b, is_signed, fraction, y, count);
}

void blend_to_bytes(const double* a, const double* b, double fraction, std::uint8_t* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_to_bytes)(a, b, fraction, y, count);
}

void blend_columns_to_bytes(const double* x, const std::int32_t* low, const std::int32_t* high, const double* fraction,
                            std::uint8_t* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_columns_to_bytes)(x, low, high, fraction, y, count);
}

void double_elements(const void* x, void* y, std::int64_t count, std::int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(double_elements)(x, y, count, bytes);
}

void pick_elements(const void* x, const std::int32_t* low, void* y, std::int64_t count, std::int64_t bytes) {
  if (bytes == 1) pick_typed<std::uint8_t>(x, low, y, count);
  else if (bytes == 2) pick_typed<std::uint16_t>(x, low, y, count);
  else if (bytes == 4) pick_typed<std::uint32_t>(x, low, y, count);
  else pick_typed<std::uint64_t>(x, low, y, count);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
