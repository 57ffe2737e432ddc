// Comparisons, which give bools, and logic on bools.
#include "backends/cpu/element_wise/comparison.h"

#include <functional>

#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/typed_lines.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/comparison.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Each functor compares two numbers, and two vectors.
struct Equal : std::equal_to<> {
  static HWY_INLINE hn::Mask<D> of(V x, V y) { return hn::Eq(x, y); }
};
struct Greater : std::greater<> {
  static HWY_INLINE hn::Mask<D> of(V x, V y) { return hn::Gt(x, y); }
};
struct GreaterOrEqual : std::greater_equal<> {
  static HWY_INLINE hn::Mask<D> of(V x, V y) { return hn::Ge(x, y); }
};
struct Less : std::less<> {
  static HWY_INLINE hn::Mask<D> of(V x, V y) { return hn::Lt(x, y); }
};
struct LessOrEqual : std::less_equal<> {
  static HWY_INLINE hn::Mask<D> of(V x, V y) { return hn::Le(x, y); }
};

// Stores a mask as bytes 1 and 0.
HWY_INLINE void store(hn::Mask<D> mask, std::uint8_t* z) {
#if HWY_TARGET == HWY_SCALAR
  *z = hn::CountTrue(D(), mask) != 0;
#else
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1))), d8, z);
#endif
}

template <typename F, bool x_moves, bool y_moves>
void line(const void* x_data, const void* y_data, void* z_data, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto *x = static_cast<const float*>(x_data), *y = static_cast<const float*>(y_data);
  auto* z = static_cast<std::uint8_t*>(z_data);
  const float x_first = *x, y_first = *y;  // read before z, which may be the memory of either, is written
  const V x_fixed = hn::Set(d, x_first), y_fixed = hn::Set(d, y_first);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store(F::of(x_moves ? hn::LoadU(d, x + i) : x_fixed, y_moves ? hn::LoadU(d, y + i) : y_fixed), z + i);
  for (; i < count; ++i) z[i] = F()(x_moves ? x[i] : x_first, y_moves ? y[i] : y_first) ? 1 : 0;
}

template <typename F>
BinaryLine pick(bool x_moves, bool y_moves) {
  if (x_moves) return y_moves ? line<F, true, true> : line<F, true, false>;
  return y_moves ? line<F, false, true> : line<F, false, false>;
}

}  // namespace

BinaryLine f32_comparison(std::string_view op, bool x_moves, bool y_moves) {
  if (op == "Equal") return pick<Equal>(x_moves, y_moves);
  if (op == "Greater") return pick<Greater>(x_moves, y_moves);
  if (op == "GreaterOrEqual") return pick<GreaterOrEqual>(x_moves, y_moves);
  return op == "Less" ? pick<Less>(x_moves, y_moves) : pick<LessOrEqual>(x_moves, y_moves);
}

void is_nan(const float* x, std::uint8_t* y, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(hn::IsNaN(hn::LoadU(d, x + i)), y + i);
  for (; i < count; ++i) y[i] = x[i] != x[i] ? 1 : 0;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(f32_comparison);
HWY_EXPORT(is_nan);

BinaryLine line_of(std::string_view op, DType type, bool x_moves, bool y_moves) {
  if (type == DType::f32) return f32_comparison_line(op, x_moves, y_moves);
  return typed_comparison_line(op, type, x_moves, y_moves);
}

}  // namespace

BinaryLine f32_comparison_line(std::string_view op, bool x_moves, bool y_moves) {
  return HWY_DYNAMIC_DISPATCH(f32_comparison)(op, x_moves, y_moves);
}

BinaryLine logic_line(std::string_view op, bool x_moves, bool y_moves) {
  return line_of(op, DType::boolean, x_moves, y_moves);
}

void not_line(const bool* x, bool* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = !x[i];
}

void is_nan_line(const float* x, bool* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(is_nan)(x, reinterpret_cast<std::uint8_t*>(y), count);
}

std::string reject_comparison(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  const DType type = view.input(0).dtype;
  const bool fits = type == DType::f32 || type == DType::boolean || has_typed_lines(type);
  return fits ? "" : "takes f32, f64, bool and integers of 8 bits or more";
}

std::unique_ptr<Kernel> make_comparison(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<BinaryKernel>(view, [](const ops::NodeView& node, bool x_moves, bool y_moves) {
    return line_of(node.op().name, node.input(0).dtype, x_moves, y_moves);
  });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
