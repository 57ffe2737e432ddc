#include "backends/cpu/kernels/conv_im2col.h"

#include <algorithm>

#include "base/checked.h"

#ifndef TESSERA_BACKENDS_CPU_CONV_IM2COL_ONCE
#define TESSERA_BACKENDS_CPU_CONV_IM2COL_ONCE
namespace tessera::backends::cpu {
namespace {

// A run of a panel's columns that lie in one row of the output.
struct Segment {
  std::int64_t column;  // within the panel
  std::int64_t count;
};

// Where a segment reads for one kernel position: elements offset + i * stride of a channel, of which those at
// positions outside [0, length) of their row are padding; `start` is the position of the first.
struct Source {
  std::int64_t offset;
  std::int64_t start;
  bool inside;  // false: all padding
};

struct PanelSources {
  std::vector<Segment> segments;
  std::vector<Source> sources;  // [kernel position][segment]
  std::int64_t kernel_positions = 0;
  std::int64_t length = 0;  // of an input row
  std::int64_t stride = 1;  // along the row
  std::int64_t channel_elements = 0;
};

}  // namespace
}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv_im2col.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// Lanes [low, high) from memory, 0 elsewhere.
HWY_INLINE hn::Vec<D> load_range(const float* from, std::int64_t low, std::int64_t high) {
  const D d;
  low = std::clamp<std::int64_t>(low, 0, kLanes);
  high = std::clamp<std::int64_t>(high, 0, kLanes);
  if (low == 0 && high == kLanes) return hn::LoadU(d, from);
  const auto mask =
      hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(low)), hn::FirstN(d, static_cast<std::size_t>(high)));
  return hn::MaskedLoad(mask, d, from);
}

void copy_segment(const float* channel, const Source& source, std::int64_t count, std::int64_t length,
                  std::int64_t stride, float* to) {
  const D d;
  const float* from = channel + source.offset;
  if (!source.inside) {
    for (std::int64_t i = 0; i < count; i += kLanes) hn::StoreU(hn::Zero(d), d, to + i);
    return;
  }
  if (stride == 1) {
    const std::int64_t low = -source.start, high = std::min(length - source.start, count);
    for (std::int64_t i = 0; i < count; i += kLanes) hn::StoreU(load_range(from + i, low - i, high - i), d, to + i);
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    const std::int64_t low = -source.start, high = std::min(length - source.start, 2 * count - 1);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const auto first = load_range(from + 2 * i, low - 2 * i, high - 2 * i);
      const auto second = load_range(from + 2 * i + kLanes, low - 2 * i - kLanes, high - 2 * i - kLanes);
      hn::StoreU(hn::ConcatEven(d, second, first), d, to + i);
    }
    return;
  }
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = source.start + i * stride;
    to[i] = position >= 0 && position < length ? from[i * stride] : 0.0f;
  }
}

// Rows in ascending order and segments from left to right: what a whole vector writes too much is overwritten later.
void copy_panel(const PanelSources& panel, const float* image, std::int64_t k_begin, std::int64_t k, float* to,
                std::int64_t to_stride) {
  const std::size_t segments = panel.segments.size();
  std::int64_t position = k_begin % panel.kernel_positions;
  const float* channel = image + k_begin / panel.kernel_positions * panel.channel_elements;
  for (std::int64_t row = 0; row < k; ++row, to += to_stride) {
    const Source* source = panel.sources.data() + static_cast<std::size_t>(position) * segments;
    for (std::size_t i = 0; i < segments; ++i) {
      copy_segment(channel, source[i], panel.segments[i].count, panel.length, panel.stride,
                   to + panel.segments[i].column);
    }
    if (++position == panel.kernel_positions) {
      position = 0;
      channel += panel.channel_elements;
    }
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(copy_panel);

Im2col::Im2col(std::vector<ops::WindowAxis> axes) : axes_(std::move(axes)) {
  for (const ops::WindowAxis& axis : axes_) {
    kernel_positions_ = base::checked_multiply(kernel_positions_, axis.kernel);
    output_positions_ = base::checked_multiply(output_positions_, axis.output);
    input_positions_ = base::checked_multiply(input_positions_, axis.input);
  }
}

void Im2col::pack(const void* state, std::int64_t k_begin, std::int64_t k, std::int64_t column, std::int64_t width,
                  float* to, std::int64_t stride) {
  const auto& image = *static_cast<const Image*>(state);
  const std::vector<ops::WindowAxis>& axes = image.geometry->axes_;
  const ops::WindowAxis& line = axes.back();
  thread_local PanelSources panel;
  panel.kernel_positions = image.geometry->kernel_positions_;
  panel.length = line.input;
  panel.stride = line.stride;
  panel.channel_elements = image.geometry->input_positions_;
  panel.segments.clear();
  for (std::int64_t filled = 0; filled < width;) {
    const std::int64_t count = std::min(width - filled, line.output - (column + filled) % line.output);
    panel.segments.push_back({filled, count});
    filled += count;
  }
  const std::size_t segments = panel.segments.size();
  panel.sources.resize(static_cast<std::size_t>(panel.kernel_positions) * segments);
  for (std::size_t s = 0; s < segments; ++s) {
    const std::int64_t output = column + panel.segments[s].column;
    for (std::int64_t position = 0; position < panel.kernel_positions; ++position) {
      Source source{0, 0, true};
      std::int64_t output_rest = output, kernel_rest = position, element_stride = 1;
      for (std::size_t a = axes.size(); a-- > 0;) {
        const ops::WindowAxis& axis = axes[a];
        const std::int64_t start =
            output_rest % axis.output * axis.stride - axis.pad_begin + kernel_rest % axis.kernel * axis.dilation;
        output_rest /= axis.output;
        kernel_rest /= axis.kernel;
        source.offset += start * element_stride;
        element_stride *= axis.input;
        if (a + 1 == axes.size())
          source.start = start;
        else
          source.inside = source.inside && start >= 0 && start < axis.input;
      }
      panel.sources[static_cast<std::size_t>(position) * segments + s] = source;
    }
  }
  HWY_DYNAMIC_DISPATCH(copy_panel)(panel, image.data, k_begin, k, to, stride);
}

}  // namespace tessera::backends::cpu
#endif
