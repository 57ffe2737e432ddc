// Kernels for the gradient of a convolution with respect to its weights in float32, with the channels last or first.
// Channels-first data is copied to channels last in scratch memory.
#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/conv_weight_gradient.h"
#include "ops/symbols.h"

namespace tessera::backends::cpu {
namespace {

bool has_channels_last(const ops::NodeView& view) {
  return view.op().name == ops::channels_last_conv_weight_gradient.name;
}

Shape channels_first_shape(const ops::NodeView& view, std::size_t input) {
  return has_channels_last(view) ? ops::channels_first(view.input(input).shape) : view.input(input).shape;
}

class ConvWeightGradient final : public Kernel {
 public:
  ConvWeightGradient(const ops::NodeView& view, std::unique_ptr<WeightGradient> gradient)
      : geometry_(weight_gradient_geometry(view)),
        outputs_(view.output(0).shape[0]),
        transposes_(!has_channels_last(view)),
        gradient_(std::move(gradient)) {}

  std::int64_t scratch_bytes() const override {
    return base::checked_add(gradient_bytes(),
                             transposes_ ? base::checked_multiply(data_floats() + result_floats(), 4) : 0);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float *x = context.input(0).data<float>(), *g = context.input(1).data<float>();
    if (transposes_) {
      auto* copies = reinterpret_cast<float*>(context.scratch() + gradient_bytes());
      x = with_channels_last(context, x, geometry_.channels, geometry_.inputs(), copies);
      g = with_channels_last(context, g, outputs_, geometry_.outputs(), copies + data_floats());
    }
    gradient_->compute(context, x, g, context.output(0).mutable_data<float>(), context.scratch());
  }

 private:
  std::int64_t gradient_bytes() const { return base::round_up(gradient_->scratch_bytes(), 64); }
  std::int64_t data_floats() const {
    return base::checked_multiply(geometry_.batch * geometry_.inputs(), geometry_.channels);
  }
  std::int64_t result_floats() const { return base::checked_multiply(geometry_.batch * geometry_.outputs(), outputs_); }

  const float* with_channels_last(KernelContext& context, const float* from, std::int64_t channels,
                                  std::int64_t positions, float* to) const {
    context.parallel_for(geometry_.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        gemm_f32_transpose(from + i * channels * positions, positions, 1, channels, positions,
                           to + i * channels * positions, channels);
    });
    return to;
  }

  ChannelsLastGeometry geometry_;
  std::int64_t outputs_;
  bool transposes_;
  std::unique_ptr<WeightGradient> gradient_;
};

}  // namespace

ChannelsLastGeometry weight_gradient_geometry(const ops::NodeView& view) {
  const Shape x = channels_first_shape(view, 0);
  ChannelsLastGeometry geometry =
      channels_last_geometry(view, ops::weight_gradient_geometry(view, x, channels_first_shape(view, 1)));
  geometry.channels = x[1];
  return geometry;
}

std::string reject_conv_weight_gradient_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (ops::states_attribute(view.node(), "precision")) return "asks for bf16";
  return reject_channels_last_rank(view);
}

KernelPointer make_conv_weight_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ConvWeightGradient>(
      view,
      make_window_weight_gradient_f32(weight_gradient_geometry(view), view.integer("group"), view.output(0).shape[0]));
}

std::string reject_winograd_weight_gradient_f32(const ops::NodeView& view) {
  if (std::string reason = reject_conv_weight_gradient_f32(view); !reason.empty()) return reason;
  if (view.integer("group") != 1) return "groups";
  return reject_winograd_weight_gradient(weight_gradient_geometry(view));
}

std::string avoid_winograd_weight_gradient_f32(const ops::NodeView& view) {
  return avoid_winograd_weight_gradient(weight_gradient_geometry(view), view.output(0).shape[0]);
}

KernelPointer make_winograd_weight_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ConvWeightGradient>(
      view, make_winograd_weight_gradient_f32(weight_gradient_geometry(view), view.output(0).shape[0]));
}

std::string reject_depthwise_weight_gradient_f32(const ops::NodeView& view) {
  if (std::string reason = reject_conv_weight_gradient_f32(view); !reason.empty()) return reason;
  const Shape& w = view.output(0).shape;
  return w[1] == 1 && w[0] == view.integer("group") ? "" : "more than one channel a group";
}

KernelPointer make_depthwise_weight_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ConvWeightGradient>(view, make_depthwise_weight_gradient_f32(weight_gradient_geometry(view)));
}

}  // namespace tessera::backends::cpu
