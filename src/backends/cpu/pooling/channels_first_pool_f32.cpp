// MaxPool, AveragePool and their global forms in float32, channels first.
#include <algorithm>

#include "backends/cpu/convolutions/sliding_window.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/pooling/kernels.h"
#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pooling/channels_first_pool_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums in a fixed order: in four vectors, which are added at the end.
float sum_all(const float* x, std::int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t kLanes = HWY_LANES(float);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + kLanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * kLanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * kLanes));
  }
  for (; i < count; i += kLanes) {
    s0 = hn::Add(s0, hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, count - i))), d, x + i));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// The larger of two; NaN if either is NaN.
template <class V>
V larger(V best, V value) {
  return hn::IfThenElse(hn::Or(hn::Gt(value, best), hn::IsNaN(value)), value, best);
}

// The largest element; NaN if any is NaN.
float max_all(const float* x, std::int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t kLanes = HWY_LANES(float);
  auto best = hn::Set(d, x[0]);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, count - i)));
    const auto value = hn::IfThenElse(mask, hn::MaskedLoad(mask, d, x + i), best);
    best = larger(best, value);
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(best, d, lanes);
  float result = lanes[0];
  for (const float lane : lanes) {
    if (lane > result || lane != lane) result = lane;
  }
  return result;
}

// The maxima of consecutive 2 × 2 windows of two lines; NaN if an element is NaN.
#if HWY_TARGET == HWY_SCALAR
void max_2x2(const float* above, const float* below, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto of_pair = [&](const float* x) { return larger(hn::LoadU(d, x), hn::LoadU(d, x + 1)); };
  for (std::int64_t o = 0; o < count; ++o) hn::StoreU(larger(of_pair(above + 2 * o), of_pair(below + 2 * o)), d, y + o);
}
#else
void max_2x2(const float* above, const float* below, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t kLanes = HWY_LANES(float);
  const auto first_of = [&](std::int64_t lanes) {
    return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(lanes, 0, kLanes)));
  };
  for (std::int64_t o = 0; o < count; o += kLanes) {
    const std::int64_t left = 2 * (count - o);
    const auto low = first_of(left), high = first_of(left - kLanes);
    const auto of_pairs = [&](const float* x) {
      const auto a = hn::MaskedLoad(low, d, x + 2 * o), b = hn::MaskedLoad(high, d, x + 2 * o + kLanes);
      return larger(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
    };
    hn::BlendedStore(larger(of_pairs(above), of_pairs(below)), first_of(count - o), d, y + o);
  }
}
#endif

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(sum_all);
HWY_EXPORT(max_all);
HWY_EXPORT(max_2x2);

namespace {

class Pool final : public Kernel {
 public:
  Pool(const ops::NodeView& view, WindowOperation operation)
      : window_(ops::pooling_geometry(view, view.input(0).shape), operation),
        averages_(operation == WindowOperation::sum) {
    if (!averages_) return;
    // With count_include_pad, elements of the padding count; taps beyond the padded input never do.
    const bool padding = view.integer("count_include_pad") != 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const ops::WindowAxis& axis = window_.axes()[i];
      for (std::int64_t o = 0; o < axis.output; ++o) {
        counts_[i].push_back(static_cast<float>(padding
                                                    ? axis.taps_within(o, -axis.pad_begin, axis.input + axis.pad_end)
                                                    : axis.taps_within(o, 0, axis.input)));
      }
    }
  }

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t strips = window_.strips();
    if (context.output(0).elements() == 0) return;
    const std::int64_t planes = context.output(0).elements() / window_.outputs();
    context.parallel_for(planes * strips, window_.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t plane = i / strips;
        const auto [first, last] =
            window_.run(i % strips, x + plane * window_.inputs(), nullptr, 0, y + plane * window_.outputs());
        if (averages_) divide(y + plane * window_.outputs(), first, last);
      }
    });
  }

 private:
  // Divides the lines [first, last) of one channel by the number of taps that counted.
  void divide(float* plane, std::int64_t first, std::int64_t last) const {
    const std::int64_t rows = window_.axes()[1].output, columns = window_.axes()[2].output;
    for (std::int64_t line = first; line < last; ++line) {
      const float outer =
          counts_[0][static_cast<std::size_t>(line / rows)] * counts_[1][static_cast<std::size_t>(line % rows)];
      for (std::int64_t x = 0; x < columns; ++x) {
        const float count = outer * counts_[2][static_cast<std::size_t>(x)];
        float& value = plane[line * columns + x];
        value = count == 0 ? 0.0f : value / count;
      }
    }
  }

  SlidingWindow window_;
  bool averages_;
  std::vector<float> counts_[3];
};

// Max pooling with non-overlapping 2 × 2 windows, which needs no padded copy.
class MaxPool2x2 final : public Kernel {
 public:
  static bool fits(const std::vector<ops::WindowAxis>& axes) {
    return axes.size() == 2 && std::ranges::all_of(axes, [](const ops::WindowAxis& axis) {
             return axis.kernel == 2 && axis.stride == 2 && axis.dilation == 1 && axis.pad_begin == 0 &&
                    2 * axis.output <= axis.input;
           });
  }

  explicit MaxPool2x2(const std::vector<ops::WindowAxis>& axes) : rows_(axes[0]), columns_(axes[1]) {}

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    if (context.output(0).elements() == 0) return;
    const std::int64_t lines = context.output(0).elements() / columns_.output;
    const auto pool = HWY_DYNAMIC_DISPATCH(max_2x2);
    context.parallel_for(lines, std::max<std::int64_t>(1, 16384 / (columns_.output + 16)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t line = begin; line < end; ++line) {
                             const std::int64_t plane = line / rows_.output, row = line % rows_.output;
                             const float* above = x + (plane * rows_.input + 2 * row) * columns_.input;
                             pool(above, above + columns_.input, y + line * columns_.output, columns_.output);
                           }
                         });
  }

 private:
  ops::WindowAxis rows_, columns_;
};

template <typename Reduce>
void pool_globally(KernelContext& context, Reduce reduce) {
  const std::int64_t planes = context.output(0).elements();
  if (planes == 0) return;
  const std::int64_t count = context.input(0).elements() / planes;
  const float* x = context.input(0).data<float>();
  float* y = context.output(0).mutable_data<float>();
  context.parallel_for(planes, std::max<std::int64_t>(1, 32768 / (count + 64)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) y[i] = reduce(x + i * count, count);
                       });
}

}  // namespace

std::string reject_channels_first_pool_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.wants_output(1)) return "indices are asked for";
  return SlidingWindow::reject(ops::pooling_geometry(view, view.input(0).shape));
}

std::string reject_channels_first_global_pool_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return view.input(0).elements() == 0 ? "empty input" : "";
}

KernelPointer make_channels_first_max_pool_f32(const ops::NodeView& view, WeightStore&) {
  const std::vector<ops::WindowAxis> axes = ops::pooling_geometry(view, view.input(0).shape);
  if (MaxPool2x2::fits(axes)) return std::make_unique<MaxPool2x2>(axes);
  return std::make_unique<Pool>(view, WindowOperation::maximum);
}
KernelPointer make_channels_first_average_pool_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<Pool>(view, WindowOperation::sum);
}

void channels_first_global_average_pool_f32(KernelContext& context) {
  pool_globally(context, [](const float* x, std::int64_t count) {
    return HWY_DYNAMIC_DISPATCH(sum_all)(x, count) / static_cast<float>(count);
  });
}

void channels_first_global_max_pool_f32(KernelContext& context) {
  pool_globally(context, [](const float* x, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(max_all)(x, count); });
}

}  // namespace tessera::backends::cpu
#endif
