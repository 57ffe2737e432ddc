// ArgMax and ArgMin of float32 along the last axis, or one before axes of one element.
#include <algorithm>
#include <limits>

#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/arg_max.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_ARG_MAX
#define TESSERA_BACKENDS_CPU_ARG_MAX
namespace tessera::backends::cpu {

// Lines up to this length are searched with one line per lane.
inline constexpr std::int64_t kShortLine = 16;

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <bool largest>
HWY_INLINE V better(V x, V best) {
  return hn::IfThenElse(largest ? hn::Gt(x, best) : hn::Lt(x, best), x, best);
}

// The best value; NaN is ignored, except at the front, where nothing is better.
template <bool largest>
float extreme(const float* x, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a = hn::Set(d, x[0]), b = a;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = better<largest>(hn::LoadU(d, x + i), a);
    b = better<largest>(hn::LoadU(d, x + i + lanes), b);
  }
  a = better<largest>(b, a);
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(a, d, values);
  float best = values[0];
  const auto take = [&](float value) {
    if (largest ? value > best : value < best) best = value;
  };
  for (std::int64_t k = 1; k < lanes; ++k) take(values[k]);
  for (; i < count; ++i) take(x[i]);
  return best;
}

std::int64_t find_first(const float* x, std::int64_t count, float wanted) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V w = hn::Set(d, wanted);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const std::intptr_t at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), w));
    if (at >= 0) return i + at;
  }
  for (; i < count; ++i) {
    if (x[i] == wanted) return i;
  }
  return 0;  // NaN in front
}

// The best positions of as many contiguous short lines as there are lanes; of equal values the first, or the last if
// `last`.
template <bool largest, bool last>
void short_lines_in_lanes(const float* x, std::int64_t length, std::int64_t* y) {
  const D d;
  const hn::RebindToSigned<D> integers;
  const auto starts = hn::Mul(hn::Iota(integers, 0), hn::Set(integers, static_cast<std::int32_t>(length)));
  V best = hn::GatherIndex(d, x, starts);
  V at = hn::Zero(d);  // positions are small, and so exact in float
  for (std::int64_t k = 1; k < length; ++k) {
    const V value = hn::GatherIndex(d, x + k, starts);
    const auto wins = last ? (largest ? hn::Ge(value, best) : hn::Le(value, best))
                           : (largest ? hn::Gt(value, best) : hn::Lt(value, best));
    best = hn::IfThenElse(wins, value, best);
    at = hn::IfThenElse(wins, hn::Set(d, static_cast<float>(k)), at);
  }
  HWY_ALIGN float positions[hn::MaxLanes(d)];
  hn::Store(at, d, positions);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) y[i] = static_cast<std::int64_t>(positions[i]);
}

template <bool largest, bool last>
void short_lines(const float* x, std::int64_t lines, std::int64_t length, std::int64_t* y) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t line = 0;
  for (; line + lanes <= lines; line += lanes) short_lines_in_lanes<largest, last>(x + line * length, length, y + line);
  if (line == lines) return;
  float values[kShortLine * 16] = {};
  std::int64_t positions[16];
  static_assert(HWY_MAX_BYTES <= 16 * sizeof(float));
  std::copy_n(x + line * length, (lines - line) * length, values);
  short_lines_in_lanes<largest, last>(values, length, positions);
  std::copy_n(positions, lines - line, y + line);
}

}  // namespace

void arg_extreme_of_short_lines(const float* x, std::int64_t lines, std::int64_t length, bool largest, bool last,
                                std::int64_t* y) {
  if (largest)
    return last ? short_lines<true, true>(x, lines, length, y) : short_lines<true, false>(x, lines, length, y);
  return last ? short_lines<false, true>(x, lines, length, y) : short_lines<false, false>(x, lines, length, y);
}

std::int64_t arg_extreme(const float* x, std::int64_t count, bool largest) {
  return find_first(x, count, largest ? extreme<true>(x, count) : extreme<false>(x, count));
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(arg_extreme);
HWY_EXPORT(arg_extreme_of_short_lines);

// Elements per chunk.
constexpr std::int64_t kGrain = 16384;

class ArgMaxKernel final : public Kernel {
 public:
  explicit ArgMaxKernel(const ops::NodeView& view)
      : largest_(view.op().name == "ArgMax"), last_(view.integer("select_last_index") != 0) {
    const Shape& shape = view.input(0).shape;
    const std::int64_t axis = ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size()));
    length_ = shape[static_cast<std::size_t>(axis)];
    lines_ = element_count(shape) / length_;
  }

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    std::int64_t* y = context.output(0).mutable_data<std::int64_t>();
    context.parallel_for(
        lines_, std::max<std::int64_t>(1, kGrain / length_), [&](std::int64_t begin, std::int64_t end) {
          if (length_ <= kShortLine) {
            return HWY_DYNAMIC_DISPATCH(arg_extreme_of_short_lines)(x + begin * length_, end - begin, length_, largest_,
                                                                    last_, y + begin);
          }
          for (std::int64_t line = begin; line < end; ++line) {
            const float* from = x + line * length_;
            y[line] = last_ ? last_of(from) : HWY_DYNAMIC_DISPATCH(arg_extreme)(from, length_, largest_);
          }
        });
  }

 private:
  std::int64_t last_of(const float* x) const {
    std::int64_t best = 0;
    float value = x[0];
    for (std::int64_t i = 1; i < length_; ++i) {
      const float candidate = x[i];
      if (largest_ ? candidate >= value : candidate <= value) best = i, value = candidate;
    }
    return best;
  }

  bool largest_, last_;
  std::int64_t length_, lines_;
};

}  // namespace

std::string reject_arg_max(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  const Shape& shape = view.input(0).shape;
  if (shape.empty() || view.input(0).elements() == 0) return "wants an axis and some elements";
  const std::int64_t axis = ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size()));
  return element_count(Shape(shape.begin() + axis + 1, shape.end())) == 1 ? "" : "searches the last axis";
}

KernelPointer make_arg_max(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ArgMaxKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
