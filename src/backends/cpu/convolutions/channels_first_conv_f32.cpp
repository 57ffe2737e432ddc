// Conv in float32, NCHW: one matrix product per image and group, weights [M/group, C/group * kernel] times the image as
// im2col columns [C/group * kernel, output positions].
#include <algorithm>

#include "backends/cpu/convolutions/im2col_f32.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

// Whether windows have one element and no stride or padding, so that the image itself is the right operand.
bool is_pointwise(const std::vector<ops::WindowAxis>& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const ops::WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0 &&
           axis.output == axis.input;
  });
}

class Conv final : public Kernel {
 public:
  Conv(const ops::NodeView& view, WeightStore& store)
      : axes_(ops::convolution_geometry(view, view.input(0).shape, view.input(1).shape)),
        im2col_(axes_),
        pointwise_(is_pointwise(axes_)),
        batch_(view.input(0).shape[0]),
        group_(view.integer("group")),
        channels_(view.input(1).shape[1]),
        gemm_({view.input(1).shape[0] / group_, im2col_.output_positions(),
               base::checked_multiply(channels_, im2col_.kernel_positions())},
              view.constant(1) != nullptr, false) {
    if (const Tensor* weights = view.constant(1)) {
      const auto [m, n, k] = gemm_.shape();
      weights_ =
          gemm_f32_packed_left(store, *weights, GemmOperand::strided(nullptr, k, 1), m, k, group_, m * k, "conv");
    }
  }

  void run(KernelContext& context) const override {
    const auto [m, n, k] = gemm_.shape();
    const float* x = context.input(0).data<float>();
    const float* w = weights_ != nullptr ? nullptr : context.input(1).data<float>();
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    const GemmF32::Split split = gemm_.split(context);
    const std::int64_t tiles = split.tiles();
    if (tiles == 0) return;
    const double tile_operations =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / static_cast<double>(tiles);
    const auto grain = static_cast<std::int64_t>(std::clamp(1e6 / std::max(tile_operations, 1.0), 1.0, 256.0));
    context.parallel_for(batch_ * group_ * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / tiles, group = image % group_;
        const Im2col::Image source{&im2col_, x + image * channels_ * im2col_.input_positions()};
        const GemmOperand left =
            weights_ ? GemmOperand::prepacked(reinterpret_cast<const float*>(weights_->data.get()) + group * m * k)
                     : GemmOperand::strided(w + group * m * k, k, 1);
        const GemmOperand right =
            pointwise_ ? GemmOperand::strided(source.data, n, 1) : GemmOperand::on_the_fly(Im2col::pack, &source);
        Epilogue epilogue;
        if (bias != nullptr) {
          epilogue.addend = bias + group * m;
          epilogue.addend_row_stride = 1;
        }
        gemm_.run(split, i % tiles, left, right, y + image * m * n, n, epilogue);
      }
    });
  }

 private:
  std::vector<ops::WindowAxis> axes_;
  Im2col im2col_;
  bool pointwise_;
  std::int64_t batch_, group_, channels_;  // channels of one group
  GemmF32 gemm_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

KernelPointer make_channels_first_conv_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Conv>(view, weights);
}

}  // namespace tessera::backends::cpu
