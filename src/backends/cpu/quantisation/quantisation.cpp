// Between float32 and 8-bit integers, with one scale a tensor or an index of an axis. Quotients are rounded to float32
// and then half to even, as the operators' descriptions say: results are those of the reference bit by bit.
#include "ops/quantisation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cpu/quantisation/kernels.h"
#include "backends/cpu/quantisation/quantisation_rows.h"
#include "base/checked.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantisation/quantisation.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

#if HWY_NATIVE_FMA
// quantise() without its division, which takes as long as ten multiplications and more, and with the same bits: the
// quotient by the reciprocal, put right twice by what it leaves over, is rounded as division rounds (Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990), as long as nothing leaves the
// normal numbers. Quotients beyond kMost saturate whatever they are.
struct MultiplyingQuantiser {
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  static constexpr float kMost = 65536, kLeastScale = 0x1p-90f, kMostScale = 0x1p90f;
  static constexpr float kRounder =
      0x1.8p23f;  // behind it there is no room for a fraction: it is rounded away, and the integer left in the low bits
  V scale, reciprocal, bound;
  VI zero;
  MultiplyingQuantiser(float s, float z)
      : scale(hn::Set(D(), s)),
        reciprocal(hn::Set(D(), 1.0f / s)),
        bound(hn::Set(D(), kMost * s)),
        zero(hn::Sub(hn::Set(DI(), static_cast<std::int32_t>(z)), hn::BitCast(DI(), hn::Set(D(), kRounder)))) {}
  static bool takes(float scale) { return scale >= kLeastScale && scale <= kMostScale; }

  // Not saturated yet.
  HWY_INLINE VI quotient(V given) const {
    const V x = hn::Min(hn::Max(given, hn::Neg(bound)), bound);
    V q = hn::Mul(x, reciprocal);
    q = hn::MulAdd(hn::NegMulAdd(q, scale, x), reciprocal, q);
    q = hn::MulAdd(hn::NegMulAdd(q, scale, x), reciprocal, q);
    return hn::Add(hn::BitCast(DI(), hn::Add(hn::IfThenZeroElse(hn::IsNaN(given), q), hn::Set(D(), kRounder))), zero);
  }
};

template <typename Q>
void quantise_row_by_multiplying(const float* x, Q* y, std::int64_t count, const MultiplyingQuantiser& given) {
  const D d;
  const hn::Rebind<Q, D> dq;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const MultiplyingQuantiser quantiser = given;  // a copy: stores of bytes could mean the original
  std::int64_t i = 0;
#if HWY_ARCH_X86
  // Packing two vectors works within blocks of 16 bytes: of the bytes, four each are of one vector and of the other in
  // turn then.
  const hn::Repartition<std::int16_t, D> d16;
  const hn::Rebind<Q, decltype(d16)> d8;
  const hn::Repartition<std::int32_t, decltype(d8)> d32;
  HWY_ALIGN std::int32_t in_order[hn::MaxLanes(d32)];
  const auto half = static_cast<std::int32_t>(hn::Lanes(d32) / 2);
  for (std::int32_t k = 0; k < half; ++k) {
    in_order[k] = 2 * k;
    in_order[half + k] = 2 * k + 1;
  }
  const auto order = hn::SetTableIndices(d32, in_order);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto words = hn::ReorderDemote2To(d16, quantiser.quotient(hn::LoadU(d, x + i)),
                                            quantiser.quotient(hn::LoadU(d, x + i + lanes)));
    hn::StoreU(hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, hn::DemoteTo(d8, words)), order)), d8, y + i);
  }
#endif
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(dq, quantiser.quotient(hn::LoadU(d, x + i))), dq, y + i);
  if (i == count) return;
  HWY_ALIGN Q values[hn::MaxLanes(d)];
  hn::StoreU(hn::DemoteTo(
                 dq, quantiser.quotient(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, x + i))),
             dq, values);
  for (std::int64_t k = 0; i < count; ++i, ++k) y[i] = values[k];
}
#endif

// saturate(round(x / scale) + zero); NaN becomes zero.
template <typename Q>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> quantise(V x, V scale, V zero) {
  const V low = hn::Set(D(), static_cast<float>(std::numeric_limits<Q>::min()));
  const V high = hn::Set(D(), static_cast<float>(std::numeric_limits<Q>::max()));
  const V q = hn::Add(hn::Round(hn::Div(x, scale)), zero);
  const V number = hn::IfThenElse(hn::IsNaN(q), zero, q);
  return hn::ConvertTo(hn::RebindToSigned<D>(), hn::Min(hn::Max(number, low), high));
}

template <typename Q>
void quantise_row(const float* x, Q* y, std::int64_t count, float scale, float zero) {
#if HWY_NATIVE_FMA
  if (MultiplyingQuantiser::takes(scale))
    return quantise_row_by_multiplying(x, y, count, MultiplyingQuantiser(scale, zero));
#endif
  const D d;
  const hn::Rebind<Q, D> dq;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, scale), z = hn::Set(d, zero);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::DemoteTo(dq, quantise<Q>(hn::LoadU(d, x + i), s, z)), dq, y + i);
  }
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  HWY_ALIGN std::int32_t values[hn::MaxLanes(d)];
  hn::Store(quantise<Q>(hn::MaskedLoad(rest, d, x + i), s, z), hn::RebindToSigned<D>(), values);
  for (std::int64_t k = 0; i < count; ++i, ++k) y[i] = static_cast<Q>(values[k]);
}

template <typename Q>
void dequantise_row(const Q* x, float* y, std::int64_t count, float scale, float zero) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Rebind<Q, D> dq;
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, scale), z = hn::Set(d, zero);
  for (; i + lanes <= count; i += lanes) {
    const V value = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(dq, x + i)));
    hn::StoreU(hn::Mul(hn::Sub(value, z), s), d, y + i);
  }
#endif
  for (; i < count; ++i) y[i] = (static_cast<float>(x[i]) - zero) * scale;
}

// NaN is passed over.
Extremes extremes(const float* x, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V low = hn::Zero(d), high = hn::Zero(d);
  const auto take = [&](V value) HWY_ATTR {
    low = hn::IfThenElse(hn::Lt(value, low), value, low);
    high = hn::IfThenElse(hn::Gt(value, high), value, high);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, x + i));
  if (i < count) take(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, x + i));
  HWY_ALIGN float lows[hn::MaxLanes(d)], highs[hn::MaxLanes(d)];
  hn::Store(low, d, lows);
  hn::Store(high, d, highs);
  return {*std::min_element(lows, lows + lanes), *std::max_element(highs, highs + lanes)};
}

}  // namespace

QuantisationRows best_quantisation_rows() {
  return {quantise_row<std::uint8_t>, quantise_row<std::int8_t>, dequantise_row<std::uint8_t>,
          dequantise_row<std::int8_t>, extremes};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(best_quantisation_rows);

// Elements a chunk.
constexpr std::int64_t kGrain = 16384;

// How scales lie on a tensor seen as [outer, scales, inner]; one scale for all: [1, 1, elements].
struct ScaleLayout {
  explicit ScaleLayout(const ops::NodeView& view) {
    const Shape& shape = view.input(0).shape;
    const ops::QuantisationLayout layout =
        ops::quantisation_layout(shape, view.input(1).shape, view.integer("axis"), view.integer("block_size"));
    inner = element_count(shape);
    if (layout.kind == ops::QuantisationLayout::Kind::per_tensor) return;
    const auto axis = static_cast<std::size_t>(layout.axis);
    scales = shape[axis];
    inner = element_count(Shape(shape.begin() + layout.axis + 1, shape.end()));
    outer = element_count(Shape(shape.begin(), shape.begin() + layout.axis));
  }
  std::int64_t outer = 1, scales = 1, inner = 1;
};

// Zero point i of input 2, or 0.
float zero_point(const KernelContext& context, std::int64_t i) {
  if (!context.has_input(2)) return 0;
  const Tensor& zeros = context.input(2);
  if (zeros.dtype() == DType::u8) return zeros.data<std::uint8_t>()[i];
  return zeros.data<std::int8_t>()[i];
}

class QuantiseKernel final : public Kernel {
 public:
  explicit QuantiseKernel(const ops::NodeView& view)
      : functions_(quantisation_rows()), layout_(view), quantises_(view.op().name == "QuantizeLinear") {}

  void run(KernelContext& context) const override {
    if (context.has_input(2)) {
      require(context.input(2).elements() == context.input(1).elements(), ErrorKind::invalid_model,
              "{} zero points for {} scales", context.input(2).elements(), context.input(1).elements());
    }
    const std::int64_t rows = layout_.outer * layout_.scales;
    if (rows == 1) {
      return context.parallel_for(layout_.inner, kGrain, [&](std::int64_t begin, std::int64_t end) {
        convert(context, 0, begin, end - begin);
      });
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, layout_.inner));
    context.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        convert(context, row % layout_.scales, row * layout_.inner, layout_.inner);
      }
    });
  }

 private:
  void convert(KernelContext& context, std::int64_t scale_index, std::int64_t offset, std::int64_t count) const {
    const float scale = context.input(1).data<float>()[scale_index], zero = zero_point(context, scale_index);
    const Tensor& x = context.input(0);
    Tensor& y = context.output(0);
    if (quantises_ && y.dtype() == DType::u8) {
      functions_.to_u8(x.data<float>() + offset, y.mutable_data<std::uint8_t>() + offset, count, scale, zero);
    } else if (quantises_) {
      functions_.to_i8(x.data<float>() + offset, y.mutable_data<std::int8_t>() + offset, count, scale, zero);
    } else if (x.dtype() == DType::u8) {
      functions_.from_u8(x.data<std::uint8_t>() + offset, y.mutable_data<float>() + offset, count, scale, zero);
    } else {
      functions_.from_i8(x.data<std::int8_t>() + offset, y.mutable_data<float>() + offset, count, scale, zero);
    }
  }

  QuantisationRows functions_;
  ScaleLayout layout_;
  bool quantises_;
};

class DynamicQuantiseKernel final : public Kernel {
 public:
  DynamicQuantiseKernel() : functions_(quantisation_rows()) {}

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    const std::int64_t count = context.input(0).elements();
    const Extremes range = range_of(context, x, count);
    const float scale = range.high == range.low ? 1.0f : (range.high - range.low) / 255.0f;
    const float ideal = std::clamp(std::nearbyint(-range.low / scale), 0.0f, 255.0f);
    const float zero = std::isnan(ideal) ? 0.0f : ideal;
    *context.output(1).mutable_data<float>() = scale;
    *context.output(2).mutable_data<std::uint8_t>() = static_cast<std::uint8_t>(zero);
    std::uint8_t* y = context.output(0).mutable_data<std::uint8_t>();
    context.parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      functions_.to_u8(x + begin, y + begin, end - begin, scale, zero);
    });
  }

 private:
  // The order of joining does not matter to the result.
  Extremes range_of(const KernelContext& context, const float* x, std::int64_t count) const {
    constexpr std::int64_t kParts = 32;
    std::array<Extremes, kParts> parts;
    const std::int64_t part = std::max(2 * kGrain, (count + kParts - 1) / kParts);
    context.parallel_for(base::ceil_divide(count, part), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        parts[static_cast<std::size_t>(i)] = functions_.extremes(x + i * part, std::min(part, count - i * part));
    });
    Extremes all;
    for (const Extremes& one : parts) all = {std::min(all.low, one.low), std::max(all.high, one.high)};
    return all;
  }

  QuantisationRows functions_;
};

bool is_byte(DType type) {
  return type == DType::u8 || type == DType::i8;
}

}  // namespace

QuantisationRows quantisation_rows() {
  return HWY_DYNAMIC_DISPATCH(best_quantisation_rows)();
}

std::string reject_quantisation(const ops::NodeView& view) {
  const bool quantises = view.op().name == "QuantizeLinear";
  const DType real = quantises ? view.input(0).dtype : view.output(0).dtype;
  const DType narrow = quantises ? view.output(0).dtype : view.input(0).dtype;
  if (real != DType::f32 || view.input(1).dtype != DType::f32 || !is_byte(narrow))
    return "converts between f32 and 8-bit integers";
  if (view.integer("block_size") != 0) return "takes one scale a tensor or an index of an axis";
  if (quantises && view.integer("precision") != 0 && view.integer("precision") != static_cast<std::int64_t>(DType::f32))
    return "divides in f32";
  return "";
}

KernelPointer make_quantisation(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<QuantiseKernel>(view);
}

KernelPointer make_dynamic_quantisation(const ops::NodeView&, WeightStore&) {
  return std::make_unique<DynamicQuantiseKernel>();
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
