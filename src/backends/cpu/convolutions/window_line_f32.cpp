#include "backends/cpu/convolutions/window_line_f32.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/window_line_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr int kOutputs = 6;  // at a time: each weight is loaded once for them

// Adds the addend to a weighted sum, bounds and stores it.
template <bool whole>
HWY_INLINE void finish(const WindowLine& line, V value, hn::Mask<D> mask, std::int64_t offset) {
  const D d;
  if (line.addend != nullptr)
    value = hn::Add(value, whole ? hn::LoadU(d, line.addend + offset) : hn::MaskedLoad(mask, d, line.addend + offset));
  value = math::at_most(d, math::at_least(d, value, line.low), line.high);
  if (whole) hn::StoreU(value, d, line.output + offset);
  else hn::BlendedStore(value, mask, d, line.output + offset);
}

// Computes one vector of channels of `outputs` neighbouring outputs, from the taps [first, last) along the line.
// `whole`: all lanes are channels.
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

// Computes the channels [begin, end) of `outputs` neighbouring outputs.
template <WindowSum kind, int outputs>
HWY_INLINE void windows(const WindowLine& line, std::int64_t begin, std::int64_t end, std::int64_t o,
                        std::int64_t first, std::int64_t last) {
  std::int64_t c = begin;
  for (; c + kLanes <= end; c += kLanes) window<kind, outputs, true>(line, c, o, first, last);
  if (c < end) window<kind, outputs, false>(line, c, o, first, last);
}

// Computes the channels [begin, end) of all outputs of a line.
template <WindowSum kind>
void any_windows(const WindowLine& line, std::int64_t begin, std::int64_t end) {
  const ops::WindowAxis& axis = line.axis;
  // Outputs whose windows are inside of the line, and those before and behind them.
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

// As a weighted `window`, for one kernel size without dilation: each input is read once for all windows that contain
// it.
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

// Computes the channels [begin, end) of all outputs of a line.
template <int kernel, int stride>
void overlapping_windows(const WindowLine& line, std::int64_t begin, std::int64_t end) {
  const auto together = [&]<int outputs>(std::integral_constant<int, outputs>, std::int64_t o) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kLanes <= end; c += kLanes) overlapping_window<kernel, stride, outputs, true>(line, c, o);
    if (c < end) overlapping_window<kernel, stride, outputs, false>(line, c, o);
  };
  // The lines of most images have a multiple of 7 or of 8 pixels.
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

WindowFunction window_line_function(WindowSum kind) {
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
std::int64_t block_channels() {
  return 4 * kLanes;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(window_line_function);
HWY_EXPORT(padded_channels);
HWY_EXPORT(block_channels);

WindowFunction window_function(WindowSum kind) {
  return HWY_DYNAMIC_DISPATCH(window_line_function)(kind);
}
std::int64_t window_padded_channels(std::int64_t channels) {
  return HWY_DYNAMIC_DISPATCH(padded_channels)(channels);
}
std::int64_t window_block_channels() {
  return HWY_DYNAMIC_DISPATCH(block_channels)();
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
