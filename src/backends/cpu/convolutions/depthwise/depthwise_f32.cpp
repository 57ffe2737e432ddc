// Channels-last depthwise convolution in float32, by the vector loops of window_line_f32.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/convolutions/window_lines_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

class DepthwiseF32 final : public LineKernel {
 public:
  // `turned`: the layer is a transposed convolution of stride 1.
  DepthwiseF32(const ops::NodeView& view, WeightStore& store, bool turned)
      : turned_(turned),
        lines_(
            turned ? *turned_geometry(channels_last_conv_transpose_geometry(view)) : channels_last_conv_geometry(view),
            WindowSum::weighted),
        activation_(plan_activation(view)),
        operands_(view, store,
                  {.name = fmt::format("channels_last_depthwise_v1:{}{}", padded_channels(), turned ? ":turned" : ""),
                   .floats = base::checked_multiply(lines_.geometry().taps(), padded_channels()),
                   .pack = [this](const float* weights, float* to, std::int64_t) { pack(weights, to); }},
                  {.floats = padded_channels(), .place = [this](const float* bias, float* to) {
                     std::copy_n(bias, lines_.geometry().channels, to);
                   }}) {}

  std::int64_t scratch_bytes() const override { return operands_.scratch_bytes(); }

  void run(KernelContext& context) const override {
    const float* z = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    const LayerOperands::Pointers operands = operands_.prepare(context, context.scratch());
    const WindowLine common = weighted_line(operands);
    const std::int64_t line_floats = common.axis.output * common.channels;
    const auto prepare = [&](WindowLine& line, std::int64_t i, std::int64_t, std::int64_t) {
      line.addend = z == nullptr ? nullptr : z + i * line_floats;
    };
    lines_.for_each_line(context, common, operands.weights, prepare,
                         [this](const WindowLine& line) { activate(line); });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& addend, const ByteLines& result, std::int64_t first,
                 std::int64_t last) const override {
    const auto x = lines_of_type<const float>(data), z = lines_of_type<const float>(addend);
    const auto y = lines_of_type<float>(result);
    const LayerOperands::Pointers operands = operands_.constants();
    const WindowLine common = weighted_line(operands);
    WindowLines::Group group(common);
    for (std::int64_t i = first; i < last; ++i) {
      WindowLine& line = group.add();
      line.output = y.at(i);
      line.addend = z.data == nullptr ? nullptr : z.at(i);
      lines_.place_line(line, x, operands.weights, i);
      if (group.is_full() || i + 1 == last) lines_.run_group(group, [this](const WindowLine& done) { activate(done); });
    }
  }

 private:
  std::int64_t padded_channels() const { return lines_.common_line().padded_channels; }

  // [tap][padded channel]
  void pack(const float* from, float* to) const {
    const std::int64_t taps = lines_.geometry().taps(), padded = padded_channels();
    std::fill_n(to, taps * padded, 0.0f);
    for (std::int64_t c = 0; c < lines_.geometry().channels; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) to[t * padded + c] = from[c * taps + (turned_ ? taps - 1 - t : t)];
    }
  }

  void activate(const WindowLine& line) const {
    if (activation_.after.function != nullptr) activation_.after(line.output, line.axis.output * line.channels);
  }

  WindowLine weighted_line(const LayerOperands::Pointers& operands) const {
    WindowLine line = lines_.common_line();
    line.bias = operands.bias;
    line.low = activation_.low;
    line.high = activation_.high;
    return line;
  }

  bool turned_;
  WindowLines lines_;
  ActivationPlan activation_;
  LayerOperands operands_;
};

}  // namespace

std::string reject_depthwise_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  return reject_unless_depthwise(view);
}

std::unique_ptr<LineKernel> make_line_depthwise_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseF32>(view, weights, false);
}

KernelPointer make_depthwise_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_line_depthwise_f32(view, weights);
}

std::string reject_unit_stride_depthwise_transpose_f32(const ops::NodeView& view) {
  if (std::string reason = reject_depthwise_transpose_f32(view); !reason.empty()) return reason;
  return turned_geometry(channels_last_conv_transpose_geometry(view)) ? ""
                                                                      : "strides, or more padding than windows reach";
}

KernelPointer make_unit_stride_depthwise_transpose_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseF32>(view, weights, true);
}

}  // namespace tessera::backends::cpu
