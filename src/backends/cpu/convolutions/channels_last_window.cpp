// Depthwise convolution and pooling in float32 with the channels last: a block of channels slides along a line of
// outputs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/checked.h"

#ifndef TESSERA_BACKENDS_CPU_CHANNELS_LAST_WINDOW
#define TESSERA_BACKENDS_CPU_CHANNELS_LAST_WINDOW
namespace tessera::backends::cpu {

enum class WindowSum : std::uint8_t { weighted, plain, maximum };

// A line of outputs [count][channels] and the lines of inputs under its windows.
struct WindowLine {
  // For every line of the window that lies inside of the image: where it begins there, and its weights [kernel][padded
  // channels].
  std::vector<const float*> inputs, weights;
  ops::WindowAxis axis;  // along the line
  std::int64_t channels = 0, padded_channels = 0;
  const float* bias = nullptr;      // padded channels; weighted sums only
  const float* addend = nullptr;    // laid out as the outputs, or null
  const float* divisors = nullptr;  // one an output, for means; or null
  float* output = nullptr;
  float low = 0, high = 0;
};
// The channels [begin, end) of a line.
using WindowFunction = void (*)(const WindowLine&, std::int64_t begin, std::int64_t end);

}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/channels_last_window.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"
#include "base/yield_point.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr int kOutputs = 6;  // at a time: each weight is loaded once for them

// Of a weighted sum: the addend, the bounds and where it belongs.
template <bool whole>
HWY_INLINE void finish(const WindowLine& line, V value, hn::Mask<D> mask, std::int64_t offset) {
  const D d;
  if (line.addend != nullptr)
    value = hn::Add(value, whole ? hn::LoadU(d, line.addend + offset) : hn::MaskedLoad(mask, d, line.addend + offset));
  value = math::at_most(d, math::at_least(d, value, line.low), line.high);
  if (whole) hn::StoreU(value, d, line.output + offset);
  else hn::BlendedStore(value, mask, d, line.output + offset);
}

// One vector of channels of `outputs` neighbouring outputs, with the taps [first, last) along the line. `whole`: all
// lanes are channels.
template <WindowSum kind, int outputs, bool whole>
HWY_INLINE void window(const WindowLine& line, std::int64_t c, std::int64_t o, std::int64_t first, std::int64_t last) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, line.channels - c)));
  const auto load = [&](const float* from)
                        HWY_ATTR { return whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from); };
  const std::int64_t step = line.axis.stride * line.channels;
  V sum[outputs];
  const V start = kind == WindowSum::weighted ? hn::LoadU(d, line.bias + c)
                                              : hn::Set(d, kind == WindowSum::maximum ? line.low : 0.0f);
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) sum[i] = start;
  for (std::size_t l = 0; l < line.inputs.size(); ++l) {
    const float* w = kind == WindowSum::weighted ? line.weights[l] + first * line.padded_channels + c : nullptr;
    for (std::int64_t k = first; k < last; ++k) {
      const float* x =
          line.inputs[l] + (o * line.axis.stride - line.axis.pad_begin + k * line.axis.dilation) * line.channels + c;
      if constexpr (kind == WindowSum::weighted) {
        const V weight = hn::LoadU(d, w);
        w += line.padded_channels;
#pragma GCC unroll 8
        for (int i = 0; i < outputs; ++i) sum[i] = hn::MulAdd(load(x + i * step), weight, sum[i]);
      } else {
#pragma GCC unroll 8
        for (int i = 0; i < outputs; ++i) {
          const V value = load(x + i * step);
          if constexpr (kind == WindowSum::plain) sum[i] = hn::Add(sum[i], value);
          else sum[i] = hn::IfThenElse(hn::Or(hn::Gt(value, sum[i]), hn::IsNaN(value)), value, sum[i]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) {
    const std::int64_t offset = (o + i) * line.channels + c;
    V value = sum[i];
    if constexpr (kind == WindowSum::plain) value = hn::Div(value, hn::Set(d, line.divisors[o + i]));
    if constexpr (kind == WindowSum::weighted) {
      finish<whole>(line, value, mask, offset);
    } else {
      if (whole) hn::StoreU(value, d, line.output + offset);
      else hn::BlendedStore(value, mask, d, line.output + offset);
    }
  }
}

// The same for the channels [begin, end).
template <WindowSum kind, int outputs>
HWY_INLINE void windows(const WindowLine& line, std::int64_t begin, std::int64_t end, std::int64_t o,
                        std::int64_t first, std::int64_t last) {
  std::int64_t c = begin;
  for (; c + kLanes <= end; c += kLanes) window<kind, outputs, true>(line, c, o, first, last);
  if (c < end) window<kind, outputs, false>(line, c, o, first, last);
}

// The channels [begin, end) of all outputs of a line.
template <WindowSum kind>
void any_windows(const WindowLine& line, std::int64_t begin, std::int64_t end) {
  const ops::WindowAxis& axis = line.axis;
  // Outputs whose windows lie inside of the line, and those before and behind.
  const std::int64_t reach = (axis.kernel - 1) * axis.dilation;
  const std::int64_t first_inside =
      std::min(axis.output, axis.pad_begin / axis.stride + (axis.pad_begin % axis.stride != 0 ? 1 : 0));
  const std::int64_t room = axis.input - 1 - reach + axis.pad_begin;
  const std::int64_t end_inside = std::max(first_inside, room < 0 ? 0 : std::min(axis.output, room / axis.stride + 1));
  const auto edge = [&](std::int64_t o) HWY_ATTR {
    const std::int64_t start = o * axis.stride - axis.pad_begin;
    const std::int64_t first =
        start >= 0 ? 0 : std::min(axis.kernel, -start / axis.dilation + (-start % axis.dilation != 0 ? 1 : 0));
    const std::int64_t last =
        start >= axis.input ? first : std::clamp((axis.input - 1 - start) / axis.dilation + 1, first, axis.kernel);
    windows<kind, 1>(line, begin, end, o, first, last);
  };
  for (std::int64_t o = 0; o < first_inside; ++o) edge(o);
  std::int64_t o = first_inside;
  for (; o + kOutputs <= end_inside; o += kOutputs) windows<kind, kOutputs>(line, begin, end, o, 0, axis.kernel);
  for (; o < end_inside; ++o) windows<kind, 1>(line, begin, end, o, 0, axis.kernel);
  for (; o < axis.output; ++o) edge(o);
}

// The same as a weighted `window`, for one size of window without dilation: each number is read once for all the
// windows that it lies in.
template <int kernel, int stride, int outputs, bool whole>
HWY_INLINE void overlapping_window(const WindowLine& line, std::int64_t c, std::int64_t o) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, line.channels - c)));
  const std::int64_t start = o * stride - line.axis.pad_begin, input = line.axis.input;
  V sum[outputs];
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) sum[i] = hn::LoadU(d, line.bias + c);
  for (std::size_t l = 0; l < line.inputs.size(); ++l) {
    V weight[kernel];
#pragma GCC unroll 8
    for (int k = 0; k < kernel; ++k) weight[k] = hn::LoadU(d, line.weights[l] + k * line.padded_channels + c);
    const float* x = line.inputs[l] + start * line.channels + c;
#pragma GCC unroll 32
    for (int j = 0; j < (outputs - 1) * stride + kernel; ++j, x += line.channels) {
      if (start + j < 0 || start + j >= input) continue;
      const V number = whole ? hn::LoadU(d, x) : hn::MaskedLoad(mask, d, x);
#pragma GCC unroll 8
      for (int k = 0; k < kernel; ++k) {
        if ((j - k) % stride == 0 && j >= k && (j - k) / stride < outputs)
          sum[(j - k) / stride] = hn::MulAdd(number, weight[k], sum[(j - k) / stride]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) finish<whole>(line, sum[i], mask, (o + i) * line.channels + c);
}

// The channels [begin, end) of all outputs of a line.
template <int kernel, int stride>
void overlapping_windows(const WindowLine& line, std::int64_t begin, std::int64_t end) {
  const auto together = [&]<int outputs>(std::integral_constant<int, outputs>, std::int64_t o) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kLanes <= end; c += kLanes) overlapping_window<kernel, stride, outputs, true>(line, c, o);
    if (c < end) overlapping_window<kernel, stride, outputs, false>(line, c, o);
  };
  // Lines of pictures have a multiple of 7 or of 8 pixels.
  const std::int64_t step = line.axis.output % 7 == 0 ? 7 : 8;
  std::int64_t o = 0;
  for (; o + step <= line.axis.output; o += step) {
    if (step == 7) together(std::integral_constant<int, 7>(), o);
    else together(std::integral_constant<int, 8>(), o);
  }
  const std::int64_t rest = line.axis.output - o;
  if (rest & 4) together(std::integral_constant<int, 4>(), o), o += 4;
  if (rest & 2) together(std::integral_constant<int, 2>(), o), o += 2;
  if (rest & 1) together(std::integral_constant<int, 1>(), o);
}

template <WindowSum kind>
void window_line(const WindowLine& line, std::int64_t begin, std::int64_t end) {
  auto run = any_windows<kind>;
  if constexpr (kind == WindowSum::weighted) {
    const ops::WindowAxis& axis = line.axis;
    if (axis.dilation == 1 && axis.kernel == 3 && axis.stride <= 2)
      run = axis.stride == 1 ? overlapping_windows<3, 1> : overlapping_windows<3, 2>;
    if (axis.dilation == 1 && axis.kernel == 5 && axis.stride <= 2)
      run = axis.stride == 1 ? overlapping_windows<5, 1> : overlapping_windows<5, 2>;
    if (axis.dilation == 1 && axis.kernel == 7 && axis.stride == 1) run = overlapping_windows<7, 1>;
  }
  run(line, begin, end);
}

}  // namespace

WindowFunction window_function(WindowSum kind) {
  switch (kind) {
    case WindowSum::weighted:
      return window_line<WindowSum::weighted>;
    case WindowSum::plain:
      return window_line<WindowSum::plain>;
    case WindowSum::maximum:
      return window_line<WindowSum::maximum>;
  }
  return nullptr;
}

std::int64_t padded_channels(std::int64_t channels) {
  return (channels + kLanes - 1) / kLanes * kLanes;
}
// Channels that are read side by side: one vector of each pixel would be read slowly.
std::int64_t block_channels() {
  return 4 * kLanes;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(window_function);
HWY_EXPORT(padded_channels);
HWY_EXPORT(block_channels);

constexpr double kChunkOperations = 5e5;

// What depthwise convolution and pooling have in common.
class WindowKernel : public Kernel {
 public:
  WindowKernel(const ChannelsLastGeometry& geometry, WindowSum kind)
      : geometry_(geometry),
        function_(HWY_DYNAMIC_DISPATCH(window_function)(kind)),
        block_channels_(HWY_DYNAMIC_DISPATCH(block_channels)()) {
    const double operations = 2.0 * static_cast<double>(geometry.channels) * static_cast<double>(geometry.taps()) *
                              static_cast<double>(geometry.axes[2].output);
    grain_ = static_cast<std::int64_t>(std::clamp(kChunkOperations / std::max(1.0, operations), 1.0, 1024.0));
  }

 protected:
  // Calls finish(line, index of its first output position in the whole result) around each line; `line` holds
  // everything that lines share. `weights` is [tap][padded channels].
  template <typename Prepare, typename Finish>
  void for_each_line(KernelContext& context, const WindowLine& common, const float* weights, Prepare prepare,
                     Finish finish) const {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const auto& [depth, lines, axis] = geometry_.axes;
    context.parallel_for(
        geometry_.batch * depth.output * lines.output, grain_, [&](std::int64_t begin, std::int64_t end) {
          Group group(common);
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = i % lines.output, plane = i / lines.output % depth.output;
            WindowLine& line = group.add();
            for_each_line_under(geometry_, i, [&](std::int64_t offset, std::int64_t tap) {
              line.inputs.push_back(x + offset);
              line.weights.push_back(weights == nullptr ? nullptr : weights + tap * common.padded_channels);
            });
            line.output = y + i * axis.output * geometry_.channels;
            prepare(line, i, plane, row);
            if (group.is_full() || i + 1 == end) run_group(group, finish);
          }
        });
  }

  // Lines that are computed together, a block of channels of each after the other: what they share of the data stays in
  // the first-level cache.
  class Group {
   public:
    explicit Group(const WindowLine& common) : common_(common), lines_(storage()) {}

    WindowLine& add() {
      WindowLine& line = lines_[count_++];
      std::vector<const float*> inputs = std::move(line.inputs),
                                weights = std::move(line.weights);  // to use their memory again
      inputs.clear();
      weights.clear();
      line = common_;
      line.inputs = std::move(inputs);
      line.weights = std::move(weights);
      return line;
    }
    bool is_full() const {
      return count_ == (common_.bias == nullptr ? 1 : kLines);
    }  // pools have a line's divisors at a time
    std::span<WindowLine> lines() const { return std::span(lines_).first(count_); }
    void clear() { count_ = 0; }

   private:
    static constexpr std::size_t kLines = 16;
    static std::array<WindowLine, kLines>& storage() {
      thread_local std::array<WindowLine, kLines> lines;
      return lines;
    }

    const WindowLine& common_;
    std::array<WindowLine, kLines>& lines_;
    std::size_t count_ = 0;
  };

  template <typename Finish>
  void run_group(Group& group, Finish finish) const {
    for (std::int64_t c = 0; c < geometry_.channels; c += block_channels_) {
      base::yield_point();
      for (const WindowLine& line : group.lines())
        function_(line, c, std::min(geometry_.channels, c + block_channels_));
    }
    for (const WindowLine& line : group.lines()) finish(line);
    group.clear();
  }

  // The lines of data under the line i of results of one picture.
  void place_line(WindowLine& line, const PictureLines<const float>& x, const float* weights, std::int64_t i) const {
    for_each_line_number_under(geometry_, i, [&](std::int64_t from, std::int64_t tap) {
      line.inputs.push_back(x.at(from));
      line.weights.push_back(weights + tap * line.padded_channels);
    });
  }

  WindowLine common_line() const {
    WindowLine line;
    line.axis = geometry_.axes[2];
    line.channels = geometry_.channels;
    line.padded_channels = HWY_DYNAMIC_DISPATCH(padded_channels)(geometry_.channels);
    return line;
  }

  ChannelsLastGeometry geometry_;

 private:
  WindowFunction function_;
  std::int64_t block_channels_, grain_;
};

class Depthwise final : public WindowKernel, public LineConv {
 public:
  Depthwise(const ops::NodeView& view, WeightStore& store)
      : WindowKernel(channels_last_conv_geometry(view), WindowSum::weighted), activation_(plan_activation(view)) {
    const std::int64_t padded = common_line().padded_channels;
    bias_.assign(static_cast<std::size_t>(padded), 0.0f);
    if (view.has_input(2)) std::copy_n(view.constant(2)->data<float>(), geometry_.channels, bias_.data());
    const Tensor& weights = *view.constant(1);
    const std::int64_t taps = geometry_.taps();
    weights_ = store.find_or_pack(weights, fmt::format("channels_last_depthwise_v1:{}", padded),
                                  base::checked_multiply(base::checked_multiply(taps, padded), 4),
                                  [&](const Tensor& contents, std::byte* bytes) {
                                    auto* to = reinterpret_cast<float*>(bytes);
                                    const float* from = contents.data<float>();
                                    std::fill_n(to, taps * padded, 0.0f);
                                    for (std::int64_t c = 0; c < geometry_.channels; ++c) {
                                      for (std::int64_t t = 0; t < taps; ++t) to[t * padded + c] = from[c * taps + t];
                                    }
                                  });
  }

  void run(KernelContext& context) const override {
    const float* z = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    const WindowLine common = weighted_line();
    const std::int64_t line_floats = common.axis.output * common.channels;
    const auto prepare = [&](WindowLine& line, std::int64_t i, std::int64_t, std::int64_t) {
      line.addend = z == nullptr ? nullptr : z + i * line_floats;
    };
    for_each_line(context, common, packed_weights(), prepare, [this](const WindowLine& line) { activate(line); });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& addend, const ByteLines& result, std::int64_t first,
                 std::int64_t last) const override {
    const auto x = lines_of_type<const float>(data), z = lines_of_type<const float>(addend);
    const auto y = lines_of_type<float>(result);
    const WindowLine common = weighted_line();
    Group group(common);
    for (std::int64_t i = first; i < last; ++i) {
      WindowLine& line = group.add();
      line.output = y.at(i);
      line.addend = z.data == nullptr ? nullptr : z.at(i);
      place_line(line, x, packed_weights(), i);
      if (group.is_full() || i + 1 == last) run_group(group, [this](const WindowLine& done) { activate(done); });
    }
  }

 private:
  void activate(const WindowLine& line) const {
    if (activation_.after.function != nullptr) activation_.after(line.output, line.axis.output * line.channels);
  }

  WindowLine weighted_line() const {
    WindowLine line = common_line();
    line.bias = bias_.data();
    line.low = activation_.low;
    line.high = activation_.high;
    return line;
  }
  const float* packed_weights() const { return reinterpret_cast<const float*>(weights_->data.get()); }

  ActivationPlan activation_;
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

class MaxPool final : public WindowKernel {
 public:
  explicit MaxPool(const ops::NodeView& view) : WindowKernel(channels_last_pool_geometry(view), WindowSum::maximum) {}

  void run(KernelContext& context) const override {
    WindowLine common = common_line();
    common.low = -std::numeric_limits<float>::infinity();
    for_each_line(
        context, common, nullptr, [](WindowLine&, std::int64_t, std::int64_t, std::int64_t) {},
        [](const WindowLine&) {});
  }
};

class AveragePool final : public WindowKernel {
 public:
  explicit AveragePool(const ops::NodeView& view) : WindowKernel(channels_last_pool_geometry(view), WindowSum::plain) {
    // With padding counted, all of the padded input counts; what a window covers beyond it never does.
    const bool padding = view.integer("count_include_pad") != 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const ops::WindowAxis& axis = geometry_.axes[i];
      const std::int64_t low = padding ? -axis.pad_begin : 0, high = padding ? axis.input + axis.pad_end : axis.input;
      for (std::int64_t o = 0; o < axis.output; ++o)
        counts_[i].push_back(static_cast<float>(axis.taps_within(o, low, high)));
    }
  }

  void run(KernelContext& context) const override {
    const auto prepare = [this](WindowLine& line, std::int64_t, std::int64_t plane, std::int64_t row) {
      thread_local std::vector<float> divisors;
      divisors.clear();
      const float outer = counts_[0][static_cast<std::size_t>(plane)] * counts_[1][static_cast<std::size_t>(row)];
      for (const float count : counts_[2])
        divisors.push_back(std::max(1.0f, outer * count));  // of a window of nothing: 0
      line.divisors = divisors.data();
    };
    for_each_line(context, common_line(), nullptr, prepare, [](const WindowLine&) {});
  }

 private:
  std::vector<float> counts_[3];
};

}  // namespace

std::string reject_channels_last_pool(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return reject_channels_last_rank(view);
}

KernelPointer make_channels_last_depthwise(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Depthwise>(view, weights);
}
std::unique_ptr<LineConv> make_depthwise_line_conv(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Depthwise>(view, weights);
}
KernelPointer make_channels_last_max_pool(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<MaxPool>(view);
}
KernelPointer make_channels_last_average_pool(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AveragePool>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
