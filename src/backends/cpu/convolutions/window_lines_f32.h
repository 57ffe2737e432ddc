// Loops over the lines (window_line_f32.h) of a whole result, for kernels on channels-last data.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/window_line_f32.h"
#include "backends/cpu/products/windows/windows.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {

// The part that depthwise convolution and pooling share: distributes the lines of a result to threads.
class WindowLines {
 public:
  WindowLines(const ChannelsLastGeometry& geometry, WindowSum kind)
      : geometry_(geometry), function_(window_function(kind)), block_channels_(window_block_channels()) {
    constexpr double kChunkOperations = 5e5;
    const double operations = 2.0 * static_cast<double>(geometry.channels) * static_cast<double>(geometry.taps()) *
                              static_cast<double>(geometry.axes[2].output);
    grain_ = static_cast<std::int64_t>(std::clamp(kChunkOperations / std::max(1.0, operations), 1.0, 1024.0));
  }

  // For each line of the result calls prepare(line, index, plane, row), computes the line and calls finish(line, index
  // of its first output position in the whole result). `common` holds the values that all lines share. `weights` is
  // [tap][padded channels], or null.
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

  // Lines that are computed together, one block of channels of all lines after the other: data that they share stays in
  // the first-level cache.
  class Group {
   public:
    explicit Group(const WindowLine& common) : common_(common), lines_(storage()) {}

    WindowLine& add() {
      WindowLine& line = lines_[count_++];
      std::vector<const float*> inputs = std::move(line.inputs),
                                weights = std::move(line.weights);  // reuses their memory
      inputs.clear();
      weights.clear();
      line = common_;
      line.inputs = std::move(inputs);
      line.weights = std::move(weights);
      return line;
    }
    bool is_full() const {
      return count_ == (common_.bias == nullptr ? 1 : kLines);
    }  // pools set divisors for each line
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

  // Sets the inputs of line i of the results of one image.
  void place_line(WindowLine& line, const PictureLines<const float>& x, const float* weights, std::int64_t i) const {
    for_each_line_number_under(geometry_, i, [&](std::int64_t from, std::int64_t tap) {
      line.inputs.push_back(x.at(from));
      line.weights.push_back(weights + tap * line.padded_channels);
    });
  }

  const ChannelsLastGeometry& geometry() const { return geometry_; }

  // A line with the values that all lines share.
  WindowLine common_line() const {
    WindowLine line;
    line.axis = geometry_.axes[2];
    line.channels = geometry_.channels;
    line.padded_channels = window_padded_channels(geometry_.channels);
    return line;
  }

 private:
  ChannelsLastGeometry geometry_;
  WindowFunction function_;
  std::int64_t block_channels_, grain_;
};

}  // namespace tessera::backends::cpu
