// CumSum of f32 and f64 (summed in double, as the reference does), i32 and i64 (which wrap).
#include <algorithm>
#include <array>
#include <type_traits>

#include "backends/cpu/rows/kernels.h"
#include "ops/core/shape_arguments.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/cumulative.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_CUMULATIVE_LINES
#define TESSERA_BACKENDS_CPU_CUMULATIVE_LINES
namespace tessera::backends::cpu {

// The most neighbouring lines that are summed together.
constexpr std::int64_t kSummedLines = 128;

template <typename T>
using LineSum = std::conditional_t<std::is_floating_point_v<T>, double, T>;

struct SummedLine {
  std::int64_t length, step;  // elements of a line, and the distance between them
  bool exclusive;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adds the lanes at x to `sums`; y receives the sums after the addition, or before it if `exclusive`.
template <class D, typename T>
HWY_INLINE void add_lanes(D d, const T* x, T* y, hn::TFromD<D>* sums, bool exclusive) {
  const hn::Rebind<T, D> dt;
  const auto sum = hn::LoadU(d, sums);
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    const auto next = hn::Add(sum, hn::LoadU(dt, x));
    hn::StoreU(exclusive ? sum : next, dt, y);
    hn::StoreU(next, d, sums);
  } else {
    const auto next = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(dt, x)));
#if HWY_TARGET == HWY_SCALAR
    *y = static_cast<T>(hn::GetLane(exclusive ? sum : next));  // Highway's scalar set makes infinities finite
#else
    hn::StoreU(hn::DemoteTo(dt, exclusive ? sum : next), dt, y);
#endif
    hn::StoreU(next, d, sums);
  }
}

// Sums `lines` neighbouring lines, at most kSummedLines.
template <typename T>
void add_up_beside(const T* x, T* y, const SummedLine& line, std::int64_t lines) {
  using Sum = LineSum<T>;
  const hn::ScalableTag<Sum> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::array<Sum, kSummedLines> begun{};
  Sum* sums = begun.data();
  for (std::int64_t i = 0; i < line.length; ++i, x += line.step, y += line.step) {
    std::int64_t j = 0;
    for (; j + lanes <= lines; j += lanes) add_lanes(d, x + j, y + j, sums + j, line.exclusive);
    for (; j < lines; ++j) add_lanes(hn::CappedTag<Sum, 1>(), x + j, y + j, sums + j, line.exclusive);
  }
}

void add_up_f32(const float* x, float* y, const SummedLine& line, std::int64_t lines) {
  add_up_beside(x, y, line, lines);
}
void add_up_f64(const double* x, double* y, const SummedLine& line, std::int64_t lines) {
  add_up_beside(x, y, line, lines);
}
void add_up_i32(const std::int32_t* x, std::int32_t* y, const SummedLine& line, std::int64_t lines) {
  add_up_beside(x, y, line, lines);
}
void add_up_i64(const std::int64_t* x, std::int64_t* y, const SummedLine& line, std::int64_t lines) {
  add_up_beside(x, y, line, lines);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(add_up_f32);
HWY_EXPORT(add_up_f64);
HWY_EXPORT(add_up_i32);
HWY_EXPORT(add_up_i64);

// Elements per chunk.
constexpr std::int64_t kGrain = 8192;

// Integers are summed as unsigned, so that sums wrap.
template <typename T>
void add_up_alone(const T* x, T* y, const SummedLine& line) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  Sum sum = 0;
  for (std::int64_t i = 0, at = 0; i < line.length; ++i, at += line.step) {
    const Sum next = sum + static_cast<Sum>(x[at]);
    y[at] = static_cast<T>(line.exclusive ? sum : next);
    sum = next;
  }
}

template <typename T>
void add_up_together(const T* x, T* y, const SummedLine& line, std::int64_t lines) {
  if constexpr (std::is_same_v<T, float>) HWY_DYNAMIC_DISPATCH(add_up_f32)(x, y, line, lines);
  else if constexpr (std::is_same_v<T, double>) HWY_DYNAMIC_DISPATCH(add_up_f64)(x, y, line, lines);
  else if constexpr (std::is_same_v<T, std::int32_t>) HWY_DYNAMIC_DISPATCH(add_up_i32)(x, y, line, lines);
  else HWY_DYNAMIC_DISPATCH(add_up_i64)(x, y, line, lines);
}

template <typename T>
void cum_sum_typed(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(ops::single_integer(context.input(1), "axis"), input.rank());
  if (input.elements() == 0) return;
  const bool reverse = context.integer("reverse") != 0;
  const std::int64_t length = input.shape()[static_cast<std::size_t>(axis)];
  const std::int64_t inner = element_count(Shape(input.shape().begin() + axis + 1, input.shape().end()));
  const SummedLine line{length, reverse ? -inner : inner, context.integer("exclusive") != 0};
  // A block is up to kSummedLines lines at one position of the axes before the summed one.
  const std::int64_t blocks = (inner + kSummedLines - 1) / kSummedLines, outer = input.elements() / length / inner;
  const T* x = input.data<T>();
  T* y = context.output(0).mutable_data<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / length / std::min(inner, kSummedLines));
  context.parallel_for(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % blocks * kSummedLines, lines = std::min(kSummedLines, inner - first);
      const std::int64_t at = item / blocks * length * inner + first + (reverse ? (length - 1) * inner : 0);
      if (inner == 1) add_up_alone(x + at, y + at, line);
      else add_up_together(x + at, y + at, line, lines);
    }
  });
}

}  // namespace

std::string reject_cum_sum(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  const bool is_taken = type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64;
  return is_taken ? "" : "takes f32, f64, i32 and i64";
}

void cum_sum(KernelContext& context) {
  switch (context.input(0).dtype()) {
    case DType::f32:
      return cum_sum_typed<float>(context);
    case DType::f64:
      return cum_sum_typed<double>(context);
    case DType::i32:
      return cum_sum_typed<std::int32_t>(context);
    default:
      return cum_sum_typed<std::int64_t>(context);
  }
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
