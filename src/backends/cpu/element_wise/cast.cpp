// Conversions between the element types that models use; the rules are those of reference/numeric.h: floats are
// truncated to 64-bit integers, saturating, and narrower integers keep the low bits; bool is value != 0.
#include "backends/cpu/element_wise/cast.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/cast.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void i32_to_f32(const std::int32_t* x, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, x + i)), d, y + i);
  for (; i < count; ++i) y[i] = static_cast<float>(x[i]);
}

template <typename Byte>
HWY_INLINE void bytes_to_f32(const Byte* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Byte, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, x + i))), d, y + i);
  }
#endif
  for (; i < count; ++i) y[i] = static_cast<float>(x[i]);
}

void u8_to_f32(const std::uint8_t* x, float* y, std::int64_t count) {
  bytes_to_f32(x, y, count);
}
void i8_to_f32(const std::int8_t* x, float* y, std::int64_t count) {
  bytes_to_f32(x, y, count);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(i32_to_f32);
HWY_EXPORT(u8_to_f32);
HWY_EXPORT(i8_to_f32);

// Elements a chunk.
constexpr std::int64_t kGrain = 32768;

std::int64_t truncate(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

template <typename T>
constexpr bool is_half = std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>;

template <typename To, typename From>
To convert(From value) {
  if constexpr (is_half<From>) return convert<To>(base::to_float(value));
  else if constexpr (std::is_same_v<To, bool>) return value != 0;
  else if constexpr (std::is_same_v<To, f16_t> && std::is_same_v<From, float>) return base::to_f16(value);
  else if constexpr (std::is_same_v<To, bf16_t> && std::is_same_v<From, float>) return base::to_bf16(value);
  else if constexpr (std::is_same_v<To, f16_t>) return base::to_f16(static_cast<double>(value));
  else if constexpr (std::is_same_v<To, bf16_t>) return base::to_bf16(static_cast<double>(value));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) return static_cast<To>(truncate(value));
  else return static_cast<To>(value);
}

template <typename From, typename To>
void line(const void* x_data, void* y_data, std::int64_t count) {
  const auto* x = static_cast<const From*>(x_data);
  auto* y = static_cast<To*>(y_data);
  if constexpr (std::is_same_v<From, To>) {
    if (x != y) std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(To));
  } else if constexpr (std::is_same_v<To, bf16_t> && std::is_same_v<From, float>) {
    to_bf16_row(x, reinterpret_cast<std::uint16_t*>(y), count);
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, bf16_t>) {
    from_bf16_row(reinterpret_cast<const std::uint16_t*>(x), y, count);
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, std::int32_t>) {
    HWY_DYNAMIC_DISPATCH(i32_to_f32)(x, y, count);
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, std::uint8_t>) {
    HWY_DYNAMIC_DISPATCH(u8_to_f32)(x, y, count);
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, bool>) {
    HWY_DYNAMIC_DISPATCH(u8_to_f32)(reinterpret_cast<const std::uint8_t*>(x), y, count);
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, std::int8_t>) {
    HWY_DYNAMIC_DISPATCH(i8_to_f32)(x, y, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = convert<To>(x[i]);
  }
}

// Calls body with a value of the element type; false for other types than these.
template <typename Body>
bool with_type(DType type, Body body) {
  switch (type) {
    case DType::f32:
      body(float{});
      return true;
    case DType::f64:
      body(double{});
      return true;
    case DType::f16:
      body(f16_t{});
      return true;
    case DType::bf16:
      body(bf16_t{});
      return true;
    case DType::i32:
      body(std::int32_t{});
      return true;
    case DType::i64:
      body(std::int64_t{});
      return true;
    case DType::u8:
      body(std::uint8_t{});
      return true;
    case DType::i8:
      body(std::int8_t{});
      return true;
    case DType::boolean:
      body(bool{});
      return true;
    default:
      return false;
  }
}

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
  CastLine found = nullptr;
  with_type(from, [&](auto x) { with_type(to, [&](auto y) { found = line<decltype(x), decltype(y)>; }); });
  return found;
}

std::string reject_cast(const ops::NodeView& view) {
  if (cast_line(view.input(0).dtype, view.output(0).dtype) != nullptr) return "";
  return "converts f32, f64, f16, bf16, i32, i64, u8, i8 and bool";
}

KernelPointer make_cast(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<CastKernel>(view.input(0).dtype, view.output(0).dtype);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
