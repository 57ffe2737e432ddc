// The gradient of max pooling in float32: each window searches its maximum again. With channels last, the windows of
// neighbouring channels are searched in vectors, one block of channels of an image per work item; with channels first,
// a work item is one channel of an image. So no two threads add to the same element.
#include <algorithm>
#include <vector>

#include "backends/cpu/pooling/kernels.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/pooling/max_pool_gradient.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pooling/max_pool_gradient_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Spreads the gradients of one window of `count` channels; its elements are at x + offsets[tap] + channel. Without
// branches: which channels a tap wins cannot be predicted.
void spread_window(const float* dy, const float* x, const float* y, float* dx, const std::int64_t* offsets,
                   std::int64_t taps, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for_each_vector(count, [&](std::int64_t c, auto load, auto store) HWY_ATTR {
    const auto largest = load(y + c), gradient = load(dy + c);
    auto waits = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, count - c)));
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t at = offsets[tap] + c;
      const auto less = hn::Lt(load(x + at), largest);
      store(hn::Add(load(dx + at), hn::IfThenElseZero(hn::AndNot(less, waits), gradient)), dx + at);
      waits = hn::And(waits, less);
    }
  });
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(spread_window);

constexpr std::int64_t kChannelBlock = 64;  // a multiple of every vector length

// The taps of a window that are inside of the input.
struct Taps {
  Taps(const ops::WindowAxis& axis, std::int64_t o)
      : start(o * axis.stride - axis.pad_begin),
        begin(std::max<std::int64_t>(0, base::ceil_divide(-start, axis.dilation))),
        end(std::min(axis.kernel, base::ceil_divide(axis.input - start, axis.dilation))) {}
  // The input position of the last tap, if there is any.
  std::int64_t last(const ops::WindowAxis& axis) const { return start + (end - 1) * axis.dilation; }
  std::int64_t start, begin, end;
};

class MaxPoolGradient final : public Kernel {
 public:
  explicit MaxPoolGradient(const ops::NodeView& view)
      : spread_(HWY_DYNAMIC_DISPATCH(spread_window)),
        last_(ops::has_channels_last(view, view.input(1).shape.size())),
        batch_(view.input(1).shape[0]),
        channels_(last_ ? view.input(1).shape.back() : view.input(1).shape[1]) {
    const std::vector<ops::WindowAxis> given = ops::max_pool_gradient_geometry(view, view.input(1).shape);
    axes_.assign(3 - given.size(), {.input = 1, .output = 1});
    axes_.insert(axes_.end(), given.begin(), given.end());
    for (const ops::WindowAxis& axis : axes_) {
      inputs_ *= axis.input;
      outputs_ *= axis.output;
    }
  }

  void run(KernelContext& context) const override {
    const Operands o{context.input(0).data<float>(), context.input(1).data<float>(), context.input(2).data<float>(),
                     context.output(0).mutable_data<float>()};
    const std::int64_t blocks = last_ ? (channels_ + kChannelBlock - 1) / kChannelBlock : channels_;
    const std::int64_t grain = last_ ? 1 : std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, inputs_));
    context.parallel_for(batch_ * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (last_) run_block(o, i / blocks, i % blocks * kChannelBlock);
        else run_plane(o, i);
      }
    });
  }

 private:
  struct Operands {
    const float *dy, *x, *y;
    float* dx;
  };

  // Calls reach(lines) before each line of windows, which lie within the first `lines` lines of the image, then
  // body(output position, elements under its window) for each window; elements are in multiples of `stride`.
  template <typename Reach, typename Body>
  void for_each_window(std::int64_t stride, const Reach& reach, const Body& body) const {
    thread_local std::vector<std::int64_t> offsets;
    std::int64_t o = 0;
    for (std::int64_t od = 0; od < axes_[0].output; ++od) {
      const Taps depth(axes_[0], od);
      for (std::int64_t oh = 0; oh < axes_[1].output; ++oh) {
        const Taps height(axes_[1], oh);
        if (depth.begin < depth.end && height.begin < height.end)
          reach(depth.last(axes_[0]) * axes_[1].input + height.last(axes_[1]) + 1);
        for (std::int64_t ow = 0; ow < axes_[2].output; ++ow, ++o) {
          const Taps width(axes_[2], ow);
          offsets.clear();
          for (std::int64_t kd = depth.begin; kd < depth.end; ++kd) {
            const std::int64_t plane = (depth.start + kd * axes_[0].dilation) * axes_[1].input;
            for (std::int64_t kh = height.begin; kh < height.end; ++kh) {
              const std::int64_t line = (plane + height.start + kh * axes_[1].dilation) * axes_[2].input;
              for (std::int64_t kw = width.begin; kw < width.end; ++kw)
                offsets.push_back((line + width.start + kw * axes_[2].dilation) * stride);
            }
          }
          body(o, offsets);
        }
      }
    }
  }

  void run_block(const Operands& o, std::int64_t image, std::int64_t first) const {
    const std::int64_t count = std::min(kChannelBlock, channels_ - first);
    const std::int64_t in = image * inputs_ * channels_ + first, out = image * outputs_ * channels_ + first;
    // Lines are cleared just before windows reach them, so that they are still in the cache.
    std::int64_t cleared = 0;
    const auto clear = [&](std::int64_t lines) {
      for (std::int64_t i = cleared * axes_[2].input; i < lines * axes_[2].input; ++i)
        std::fill_n(o.dx + in + i * channels_, count, 0.0f);
      cleared = std::max(cleared, lines);
    };
    for_each_window(channels_, clear, [&](std::int64_t window, const std::vector<std::int64_t>& offsets) {
      const std::int64_t at = out + window * channels_;
      spread_(o.dy + at, o.x + in, o.y + at, o.dx + in, offsets.data(), static_cast<std::int64_t>(offsets.size()),
              count);
    });
    clear(axes_[0].input * axes_[1].input);
  }

  void run_plane(const Operands& o, std::int64_t plane) const {
    const float *x = o.x + plane * inputs_, *y = o.y + plane * outputs_, *dy = o.dy + plane * outputs_;
    float* dx = o.dx + plane * inputs_;
    std::fill_n(dx, inputs_, 0.0f);
    const auto nothing = [](std::int64_t) {};
    for_each_window(1, nothing, [&](std::int64_t window, const std::vector<std::int64_t>& offsets) {
      for (const std::int64_t at : offsets) {
        if (x[at] < y[window]) continue;
        dx[at] += dy[window];
        break;
      }
    });
  }

  decltype(&HWY_STATIC_DISPATCH(spread_window)) spread_;
  bool last_;
  std::int64_t batch_, channels_, inputs_ = 1, outputs_ = 1;
  std::vector<ops::WindowAxis> axes_;  // three
};

}  // namespace

std::string reject_max_pool_gradient_f32(const ops::NodeView& view) {
  if (view.input(1).dtype != DType::f32) return "takes f32";
  return view.input(1).shape.size() > 5 ? "takes up to three spatial axes" : "";
}

KernelPointer make_max_pool_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<MaxPoolGradient>(view);
}

}  // namespace tessera::backends::cpu
#endif
