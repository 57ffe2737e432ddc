// Channels-last pooling in float32, by the vector loops of convolutions/window_line_f32.cpp.
#include <algorithm>
#include <limits>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/window_lines_f32.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/pooling/kernels.h"

namespace tessera::backends::cpu {
namespace {

class MaxPool final : public Kernel {
 public:
  explicit MaxPool(const ops::NodeView& view) : lines_(channels_last_pool_geometry(view), WindowSum::maximum) {}

  void run(KernelContext& context) const override {
    WindowLine common = lines_.common_line();
    common.low = -std::numeric_limits<float>::infinity();
    lines_.for_each_line(
        context, common, nullptr, [](WindowLine&, std::int64_t, std::int64_t, std::int64_t) {},
        [](const WindowLine&) {});
  }

 private:
  WindowLines lines_;
};

class AveragePool final : public Kernel {
 public:
  explicit AveragePool(const ops::NodeView& view) : lines_(channels_last_pool_geometry(view), WindowSum::plain) {
    // With count_include_pad, elements of the padding count; taps beyond the padded input never do.
    const bool padding = view.integer("count_include_pad") != 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const ops::WindowAxis& axis = lines_.geometry().axes[i];
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
        divisors.push_back(std::max(1.0f, outer * count));  // 0 for a window without elements
      line.divisors = divisors.data();
    };
    lines_.for_each_line(context, lines_.common_line(), nullptr, prepare, [](const WindowLine&) {});
  }

 private:
  WindowLines lines_;
  std::vector<float> counts_[3];  // elements under a window, by axis
};

}  // namespace

std::string reject_pool_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return reject_channels_last_rank(view);
}

KernelPointer make_max_pool_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<MaxPool>(view);
}
KernelPointer make_average_pool_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AveragePool>(view);
}

}  // namespace tessera::backends::cpu
