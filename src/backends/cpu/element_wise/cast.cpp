// Conversions between the element types that models use, by the rules of the reference: floats are truncated to 64-bit
// integers, saturating, and narrower integers keep the low bits; bool is value != 0.
#include "backends/cpu/element_wise/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_wise/independent_elements.h"
#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "base/numbers/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/cast.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
constexpr bool is_half = std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>;

// Elements at a time that are converted through float32 from or to float16 and bfloat16.
constexpr std::int64_t kThroughFloat = 256;

// Truncates to 64 bits, saturating, of which narrower integers keep the low bits; u64 saturates at its own maximum.
template <typename To>
HWY_INLINE To truncated(double value) {
  if (std::isnan(value)) return 0;
  if constexpr (std::is_same_v<To, std::uint64_t>) {
    if (value >= 0x1p64) return std::numeric_limits<To>::max();
    if (value >= 0x1p63) return static_cast<To>(value);
  }
  if (value >= 0x1p63) return static_cast<To>(std::numeric_limits<std::int64_t>::max());
  if (value < -0x1p63) return static_cast<To>(std::numeric_limits<std::int64_t>::min());
  return static_cast<To>(static_cast<std::int64_t>(value));
}

// A float that rounds to float16 or bfloat16 as the double does: its last bit records whether anything was lost
// (rounding to odd). Correct for formats with at least two digits fewer.
HWY_INLINE float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  bits -= std::fabs(back) > std::fabs(value) ? 1 : 0;
  return std::bit_cast<float>(bits | (back != value ? 1 : 0));
}

struct Plain {
  template <typename To, typename From>
  static HWY_INLINE void convert(From x, To& y) {
    y = static_cast<To>(x);
  }
};
struct ByInt32 {
  template <typename To, typename From>
  static HWY_INLINE void convert(From x, To& y) {
    y = static_cast<To>(static_cast<std::int32_t>(x));
  }
};
struct IsNotZero {
  template <typename From>
  static HWY_INLINE void convert(From x, std::uint8_t& y) {
    y = x != 0 ? 1 : 0;
  }
};
struct ToOdd {
  template <typename From>
  static HWY_INLINE void convert(From x, float& y) {
    y = rounded_to_odd(static_cast<double>(x));
  }
};

template <typename How, typename From, typename To>
HWY_INLINE void convert_each(const From* x, To* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    TESSERA_INDEPENDENT_ELEMENTS
    for (std::int64_t k = 0; k < kTogether; ++k) How::convert(x[i + k], y[i + k]);
  }
  for (; i < count; ++i) How::convert(x[i], y[i]);
}

// Whether kTogether floats fit in 32 bits.
template <typename From>
HWY_INLINE bool fit_in_32_bits(const From* x) {
  using Mask = std::conditional_t<sizeof(From) == 4, std::int32_t, std::int64_t>;
  Mask outside = 0;
  for (std::int64_t k = 0; k < kTogether; ++k) outside |= std::fabs(x[k]) < From{0x1p31} ? Mask{0} : Mask{1};
  return outside == 0;
}

template <typename From, typename To>
HWY_INLINE void truncate_each(const From* x, To* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    if (fit_in_32_bits(x + i)) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < kTogether; ++k) ByInt32::convert(x[i + k], y[i + k]);
    } else {
      for (std::int64_t k = i; k < i + kTogether; ++k) y[k] = truncated<To>(static_cast<double>(x[k]));
    }
  }
  for (; i < count; ++i) y[i] = truncated<To>(static_cast<double>(x[i]));
}

void widen(const bf16_t* x, float* y, std::int64_t count) {
  from_bf16_row(reinterpret_cast<const std::uint16_t*>(x), y, count);
}
void narrow(const float* x, bf16_t* y, std::int64_t count) {
  to_bf16_row(x, reinterpret_cast<std::uint16_t*>(y), count);
}

void widen(const f16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(x + i))), d, y + i);
#endif
  for (; i < count; ++i) y[i] = base::to_float(x[i]);
}

void narrow(const float* x, f16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, x + i)), half, reinterpret_cast<hwy::float16_t*>(y + i));
#endif
  for (; i < count; ++i) y[i] = base::to_f16(x[i]);
}

template <typename From, typename To>
void convert_line(const void* x_data, void* y_data, std::int64_t count) {
  const auto* x = static_cast<const From*>(x_data);
  auto* y = static_cast<To*>(y_data);
  if constexpr (std::is_same_v<From, bool>) {
    convert_line<std::uint8_t, To>(x_data, y_data, count);
  } else if constexpr (std::is_same_v<From, To>) {
    if (x != y) std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(To));
  } else if constexpr (is_half<From> && std::is_same_v<To, float>) {
    widen(x, y, count);
  } else if constexpr (is_half<To> && std::is_same_v<From, float>) {
    narrow(x, y, count);
  } else if constexpr (is_half<From> || is_half<To>) {
    HWY_ALIGN float between[kThroughFloat];
    for (std::int64_t i = 0; i < count; i += kThroughFloat) {
      const std::int64_t some = std::min(kThroughFloat, count - i);
      if constexpr (is_half<From>) widen(x + i, between, some);
      else if constexpr (sizeof(From) < 4) convert_each<Plain>(x + i, between, some);
      else convert_each<ToOdd>(x + i, between, some);
      if constexpr (is_half<To>) narrow(between, y + i, some);
      else convert_line<float, To>(between, y + i, some);
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    convert_each<IsNotZero>(x, static_cast<std::uint8_t*>(y_data), count);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    truncate_each(x, y, count);
  } else {
    convert_each<Plain>(x, y, count);
  }
}

// Calls body with a value of the element type; does nothing for types that this kernel does not convert.
template <typename Body>
void with_castable(DType type, const Body& body) {
  switch (type) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    case DType::f16:
      return body(f16_t{});
    case DType::bf16:
      return body(bf16_t{});
    case DType::i64:
      return body(std::int64_t{});
    case DType::i32:
      return body(std::int32_t{});
    case DType::i16:
      return body(std::int16_t{});
    case DType::i8:
      return body(std::int8_t{});
    case DType::u64:
      return body(std::uint64_t{});
    case DType::u32:
      return body(std::uint32_t{});
    case DType::u16:
      return body(std::uint16_t{});
    case DType::u8:
      return body(std::uint8_t{});
    case DType::boolean:
      return body(bool{});
    default:
      return;
  }
}

}  // namespace

CastLine cast_line_of(DType from, DType to) {
  CastLine found = nullptr;
  with_castable(from,
                [&](auto x) { with_castable(to, [&](auto y) { found = convert_line<decltype(x), decltype(y)>; }); });
  return found;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(cast_line_of);

// Elements per chunk.
constexpr std::int64_t kGrain = 32768;

class CastKernel final : public Kernel {
 public:
  CastKernel(DType from, DType to)
      : line_(cast_line(from, to)), from_bytes_(bits_of(from) / 8), to_bytes_(bits_of(to) / 8) {}

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
    context.parallel_for(context.input(0).elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      line_(x + begin * from_bytes_, y + begin * to_bytes_, end - begin);
    });
  }

 private:
  CastLine line_;
  std::int64_t from_bytes_, to_bytes_;
};

}  // namespace

CastLine cast_line(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(cast_line_of)(from, to);
}

std::string reject_cast(const ops::NodeView& view) {
  if (cast_line(view.input(0).dtype, view.output(0).dtype) != nullptr) return "";
  return "converts floats of 16 bits and more, integers of 8 bits and more and bool";
}

KernelPointer make_cast(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<CastKernel>(view.input(0).dtype, view.output(0).dtype);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
