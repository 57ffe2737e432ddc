// ConvTranspose in float32, NCHW: one product gives the contribution of every input position at every kernel position,
// [M/group * kernel, inputs]; each output channel then adds up its own rows, in a fixed order.
#include <algorithm>

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {
namespace {

std::int64_t product_of(const std::vector<ops::WindowAxis>& axes, std::int64_t ops::WindowAxis::* size) {
  std::int64_t result = 1;
  for (const ops::WindowAxis& axis : axes) result = base::checked_multiply(result, axis.*size);
  return result;
}

class ChannelsFirstConvTranspose final : public Kernel {
 public:
  ChannelsFirstConvTranspose(const ops::NodeView& view, WeightStore& store)
      : axes_(ops::transposed_geometry(view, view.input(0).shape, view.input(1).shape)),
        group_(view.integer("group")),
        outputs_(view.input(1).shape[1]),
        taps_(product_of(axes_, &ops::WindowAxis::kernel)),
        input_positions_(product_of(axes_, &ops::WindowAxis::input)),
        output_positions_(product_of(axes_, &ops::WindowAxis::output)),
        gemm_({base::checked_multiply(outputs_, taps_), input_positions_, view.input(1).shape[0] / group_},
              view.constant(1) != nullptr, false) {
    const auto [m, n, k] = gemm_.shape();
    if (const Tensor* weights = view.constant(1)) {
      weights_ = gemm_f32_packed_left(store, *weights, GemmOperand::strided(nullptr, 1, m), m, k, group_, m * k,
                                      "conv_transpose");
    }
  }

  std::int64_t scratch_bytes() const override {
    return base::checked_multiply(base::checked_multiply(gemm_.shape().m, input_positions_), 4);
  }

  void run(KernelContext& context) const override {
    const auto [m, n, k] = gemm_.shape();
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    const float* w = weights_ != nullptr ? nullptr : context.input(1).data<float>();
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    auto* columns = reinterpret_cast<float*>(context.scratch());
    const std::int64_t images = context.input(0).shape()[0] * group_;
    for (std::int64_t image = 0; image < images; ++image) {
      const std::int64_t group = image % group_;
      const GemmOperand left =
          weights_ ? GemmOperand::prepacked(reinterpret_cast<const float*>(weights_->data.get()) + group * m * k)
                   : GemmOperand::strided(w + group * m * k, 1, m);
      gemm_f32(context, gemm_, left, GemmOperand::strided(x + image * k * n, n, 1), columns, n);
      const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (taps_ * input_positions_ + output_positions_));
      context.parallel_for(outputs_, grain, [&, n = n](std::int64_t begin, std::int64_t end) {
        for (std::int64_t output = begin; output < end; ++output) {
          float* plane = y + (image * outputs_ + output) * output_positions_;
          const float start = bias == nullptr ? 0.0f : bias[group * outputs_ + output];
          std::fill(plane, plane + output_positions_, start);
          for (std::int64_t tap = 0; tap < taps_; ++tap) add_tap(columns + (output * taps_ + tap) * n, tap, plane);
        }
      });
    }
  }

 private:
  // Adds one row of the product to the positions of an output plane that it contributes to.
  void add_tap(const float* row, std::int64_t tap, float* plane) const {
    const ops::WindowAxis& line = axes_.back();
    const std::int64_t shift = tap % line.kernel * line.dilation - line.pad_begin;
    const std::int64_t begin = shift >= 0 ? 0 : base::ceil_divide(-shift, line.stride);
    const std::int64_t end =
        shift >= line.output ? 0 : std::min(line.input, base::ceil_divide(line.output - shift, line.stride));
    if (begin >= end) return;
    const std::int64_t lines = input_positions_ / line.input;
    for (std::int64_t i = 0; i < lines; ++i, row += line.input) {
      std::int64_t rest = i, tap_rest = tap / line.kernel, offset = 0, stride = line.output;
      bool inside = true;
      for (std::size_t a = axes_.size() - 1; a-- > 0;) {
        const ops::WindowAxis& axis = axes_[a];
        const std::int64_t at =
            rest % axis.input * axis.stride - axis.pad_begin + tap_rest % axis.kernel * axis.dilation;
        inside = inside && at >= 0 && at < axis.output;
        offset += at * stride;
        stride *= axis.output;
        rest /= axis.input;
        tap_rest /= axis.kernel;
      }
      if (!inside) continue;
      float* to = plane + offset + shift;
      for (std::int64_t j = begin; j < end; ++j) to[j * line.stride] += row[j];
    }
  }

  std::vector<ops::WindowAxis> axes_;
  std::int64_t group_, outputs_, taps_;  // outputs of one group
  std::int64_t input_positions_, output_positions_;
  GemmF32 gemm_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_channels_first_conv_transpose_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return view.input(0).elements() == 0 || view.input(1).elements() == 0 ? "empty operands" : "";
}

KernelPointer make_channels_first_conv_transpose_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ChannelsFirstConvTranspose>(view, weights);
}

}  // namespace tessera::backends::cpu
