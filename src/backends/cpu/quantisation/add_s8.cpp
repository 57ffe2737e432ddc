// QLinearAdd of tensors of equal shape: 8-bit operands and result, float32 in registers in between.
#include <algorithm>

#include "backends/cpu/quantisation/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantisation/add_s8.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_QUANTISED_ADD
#define TESSERA_BACKENDS_CPU_QUANTISED_ADD
namespace tessera::backends::cpu {

// y = saturate(round(a_factor a + b_factor b + offset) + zero)
struct QuantisedSum {
  float a_factor = 0, b_factor = 0, offset = 0;
  std::int32_t zero = 0;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;

template <typename T>
HWY_INLINE hn::Vec<DI> sum(hn::Vec<DI> a, hn::Vec<DI> b, const QuantisedSum& s) {
  const D d;
  const auto real = hn::MulAdd(hn::ConvertTo(d, a), hn::Set(d, s.a_factor),
                               hn::MulAdd(hn::ConvertTo(d, b), hn::Set(d, s.b_factor), hn::Set(d, s.offset)));
  const auto low = hn::Set(d, static_cast<float>(std::numeric_limits<T>::min() - s.zero)),
             high = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max() - s.zero));
  const auto number = hn::IfThenElse(hn::IsNaN(real), low, real);
  return hn::Add(hn::NearestInt(hn::Min(hn::Max(number, low), high)), hn::Set(DI(), s.zero));
}

template <typename T>
void add_rows(const void* a_bytes, const void* b_bytes, void* y_bytes, std::int64_t count, const QuantisedSum& s) {
  const auto *a = static_cast<const T*>(a_bytes), *b = static_cast<const T*>(b_bytes);
  auto* y = static_cast<T*>(y_bytes);
  const DI di;
  const hn::Rebind<T, DI> dt;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(
        hn::DemoteTo(dt, sum<T>(hn::PromoteTo(di, hn::LoadU(dt, a + i)), hn::PromoteTo(di, hn::LoadU(dt, b + i)), s)),
        dt, y + i);
  }
  HWY_ALIGN std::int32_t result[hn::MaxLanes(di)];
  for (; i < count; ++i) {
    hn::Store(sum<T>(hn::Set(di, a[i]), hn::Set(di, b[i]), s), di, result);
    y[i] = static_cast<T>(result[0]);
  }
}

}  // namespace

using AddRows = void (*)(const void*, const void*, void*, std::int64_t, const QuantisedSum&);
AddRows add_rows_function(bool is_signed) {
  return is_signed ? add_rows<std::int8_t> : add_rows<std::uint8_t>;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(add_rows_function);

// Input indices of A, B and the result's scale; each is followed by its zero point.
constexpr std::size_t kA = 1, kB = 4, kY = 6;

float scale_at(const KernelContext& context, std::size_t i) {
  return *context.input(i).data<float>();
}

std::int32_t zero_at(const KernelContext& context, std::size_t scale) {
  if (!context.has_input(scale + 1)) return 0;
  const Tensor& zero = context.input(scale + 1);
  return zero.dtype() == DType::i8 ? *zero.data<std::int8_t>() : *zero.data<std::uint8_t>();
}

}  // namespace

std::string reject_add_s8(const ops::NodeView& view) {
  return view.input(0).shape == view.input(3).shape ? "" : "operands of different shapes";
}

void add_s8(KernelContext& context) {
  const std::int64_t count = context.output(0).elements();
  const float y_scale = scale_at(context, kY);
  QuantisedSum sum{.a_factor = scale_at(context, kA) / y_scale,
                   .b_factor = scale_at(context, kB) / y_scale,
                   .zero = zero_at(context, kY)};
  sum.offset = -(sum.a_factor * static_cast<float>(zero_at(context, kA)) +
                 sum.b_factor * static_cast<float>(zero_at(context, kB)));
  const auto* a = static_cast<const std::byte*>(context.input(0).raw());
  const auto* b = static_cast<const std::byte*>(context.input(3).raw());
  auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
  const auto add = HWY_DYNAMIC_DISPATCH(add_rows_function)(context.output(0).dtype() == DType::i8);
  context.parallel_for(count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    add(a + begin, b + begin, y + begin, end - begin, sum);
  });
}

}  // namespace tessera::backends::cpu
#endif
