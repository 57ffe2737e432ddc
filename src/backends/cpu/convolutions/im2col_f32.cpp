#include "backends/cpu/convolutions/im2col_f32.h"

#include <algorithm>

#include "base/numbers/checked.h"

#ifndef TESSERA_BACKENDS_CPU_CONV_IM2COL_ONCE
#define TESSERA_BACKENDS_CPU_CONV_IM2COL_ONCE
namespace tessera::backends::cpu {
namespace {

// Consecutive columns of a panel that lie in one row of the output.
struct Segment {
  std::int64_t column;  // within the panel
  std::int64_t count;
};

// The input of a segment for one kernel position: element `start` of the line at offset `line` of a channel.
struct Source {
  std::int64_t line;
  std::int64_t start;
  bool inside;  // false: the whole line is padding
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
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/im2col_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/movement/copy_line.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Order: rows ascending, segments from left to right, so that later writes overwrite what a whole vector writes too
// much.
void copy_panel(const PanelSources& panel, const float* image, std::int64_t k_begin, std::int64_t k, float* to,
                std::int64_t to_stride) {
  const std::size_t segments = panel.segments.size();
  std::int64_t position = k_begin % panel.kernel_positions;
  const float* channel = image + k_begin / panel.kernel_positions * panel.channel_elements;
  for (std::int64_t row = 0; row < k; ++row, to += to_stride) {
    const Source* source = panel.sources.data() + static_cast<std::size_t>(position) * segments;
    for (std::size_t i = 0; i < segments; ++i) {
      // A line outside the image is all padding.
      copy_line(channel + source[i].line, source[i].inside ? panel.length : 0, source[i].start, panel.stride,
                panel.segments[i].count, 0.0f, to + panel.segments[i].column);
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
        if (a + 1 == axes.size()) {
          source.start = start;
        } else {
          source.line += start * element_stride;
          source.inside = source.inside && start >= 0 && start < axis.input;
        }
        element_stride *= axis.input;
      }
      if (!source.inside) source.line = 0;
      panel.sources[static_cast<std::size_t>(position) * segments + s] = source;
    }
  }
  HWY_DYNAMIC_DISPATCH(copy_panel)(panel, image.data, k_begin, k, to, stride);
}

}  // namespace tessera::backends::cpu
#endif
