// Conv in float32, NCHW, with one input channel per group: a window slides over each channel.
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/sliding_window.h"
#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {
namespace {

class DepthwiseConv final : public Kernel {
 public:
  explicit DepthwiseConv(const ops::NodeView& view)
      : window_(ops::convolution_geometry(view, view.input(0).shape, view.input(1).shape),
                WindowOperation::weighted_sum) {}

  void run(KernelContext& context) const override {
    const std::int64_t channels = context.input(0).shape()[1], outputs = context.output(0).shape()[1];
    const std::int64_t strips = window_.strips();
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    const float* w = context.input(1).data<float>();
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(context.output(0).shape()[0] * outputs * strips, window_.grain(),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const std::int64_t plane = i / strips, image = plane / outputs, output = plane % outputs;
                             const std::int64_t channel = image * channels + output / (outputs / channels);
                             window_.run(i % strips, x + channel * window_.inputs(), w + output * window_.taps(),
                                         bias == nullptr ? 0.0f : bias[output], y + plane * window_.outputs());
                           }
                         });
  }

 private:
  SlidingWindow window_;
};

}  // namespace

std::string reject_channels_first_depthwise_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  const Shape& w = view.input(1).shape;
  if (w[1] != 1 || view.integer("group") == 1) return "more than one input channel a group";
  return SlidingWindow::reject(ops::convolution_geometry(view, view.input(0).shape, w));
}

KernelPointer make_channels_first_depthwise_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<DepthwiseConv>(view);
}

}  // namespace tessera::backends::cpu
