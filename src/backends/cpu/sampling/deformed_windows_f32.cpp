// The samples of DeformConv of float32 images and their gradients: blocks of samples of one offset group in parallel.
#include <cmath>
#include <memory>

#include "backends/cpu/sampling/kernels.h"
#include "backends/cpu/sampling/sample_block.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {
namespace {

struct Gradients {
  float *offsets = nullptr, *mask = nullptr;
};

// Samples of DeformConv. A group is an offset group of an image; its samples are ordered by tap, then by window.
class WindowSampler final : public Sampler {
 public:
  // `mask` may be null.
  WindowSampler(const std::vector<ops::WindowAxis>& axes, const float* offsets, const float* mask,
                Gradients gradients = {})
      : y_(axes[0]), x_(axes[1]), offsets_(offsets), mask_(mask), gradients_(gradients) {}

  void fill(std::int64_t group, std::int64_t first, SampleBlock& block, SlopeBlock* slopes) const override {
    block.taps = 4;
    if (slopes != nullptr) slopes->kinds = gradients_.mask != nullptr ? 3 : 2;
    for (std::int64_t s = 0; s < block.count; ++s) {
      const std::int64_t sample = first + s, tap = sample / windows(), o = sample % windows();
      const float* offset = offsets_ + ((group * taps() + tap) * 2) * windows() + o;
      const double y = start(y_, o / x_.output, tap / x_.kernel) + offset[0],
                   x = start(x_, o % x_.output, tap % x_.kernel) + offset[windows()];
      const double factor = mask_ != nullptr ? mask_[(group * taps() + tap) * windows() + o] : 1;
      // False outside of the image and for NaN.
      const bool inside = y > -1 && y < static_cast<double>(y_.input) && x > -1 && x < static_cast<double>(x_.input);
      const double low_y = inside ? std::floor(y) : 0, low_x = inside ? std::floor(x) : 0;
      const double part_y = inside ? y - low_y : 0, part_x = inside ? x - low_x : 0;
      for (int k = 0; k < 4; ++k) {
        const std::int64_t row = static_cast<std::int64_t>(low_y) + k / 2,
                           column = static_cast<std::int64_t>(low_x) + k % 2;
        const bool there = inside && row >= 0 && row < y_.input && column >= 0 && column < x_.input;
        block.index[k][s] = there ? static_cast<std::int32_t>(row * x_.input + column) : -1;
        const double weight_y = k / 2 == 0 ? 1 - part_y : part_y, weight_x = k % 2 == 0 ? 1 - part_x : part_x;
        block.weight[k][s] = static_cast<float>(factor * weight_y * weight_x);
        if (slopes == nullptr) continue;
        slopes->slope[0][k][s] = static_cast<float>((k / 2 == 0 ? -factor : factor) * weight_x);
        slopes->slope[1][k][s] = static_cast<float>((k % 2 == 0 ? -factor : factor) * weight_y);
        slopes->slope[2][k][s] = static_cast<float>(weight_y * weight_x);
      }
    }
  }

  void store(std::int64_t group, std::int64_t first, std::int64_t count, const float* sums) const override {
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t tap = group * taps() + (first + s) / windows(), o = (first + s) % windows();
      for (std::int64_t axis = 0; axis < 2; ++axis)
        gradients_.offsets[(tap * 2 + axis) * windows() + o] = sums[axis * SampleBlock::kSamples + s];
      if (gradients_.mask != nullptr) gradients_.mask[tap * windows() + o] = sums[2 * SampleBlock::kSamples + s];
    }
  }

 private:
  std::int64_t windows() const { return y_.output * x_.output; }
  std::int64_t taps() const { return y_.kernel * x_.kernel; }
  static double start(const ops::WindowAxis& axis, std::int64_t window, std::int64_t tap) {
    return static_cast<double>(window * axis.stride - axis.pad_begin + tap * axis.dilation);
  }

  ops::WindowAxis y_, x_;
  const float *offsets_, *mask_;
  Gradients gradients_;
};

SampleLayout layout_of(const ops::AttributeReader& reader, const Shape& x, const std::vector<ops::WindowAxis>& axes) {
  const std::int64_t groups = reader.integer("offset_group");
  return {x[0] * groups, x[1] / groups, x[2] * x[3], axes[0].kernel * axes[1].kernel * axes[0].output * axes[1].output};
}

const float* optional_data(const KernelContext& context, std::size_t i) {
  return context.has_input(i) ? context.input(i).data<float>() : nullptr;
}

}  // namespace

std::string reject_deformed_windows_f32(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  const Shape& x = view.input(0).shape;
  if (x.size() != 4) return "takes images of two axes";
  return layout_of(view, x, ops::pooling_geometry(view, x)).fault();
}

void deformed_windows_f32(KernelContext& context) {
  const Shape& x = context.input(0).shape();
  const std::vector<ops::WindowAxis> axes = ops::pooling_geometry(context, x);
  const WindowSampler sampler(axes, context.input(1).data<float>(), optional_data(context, 2));
  sample_planes(context, layout_of(context, x, axes), sampler, context.input(0).data<float>(),
                context.output(0).mutable_data<float>());
}

void deformed_windows_gradient_f32(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const std::vector<ops::WindowAxis> axes = ops::pooling_geometry(context, shape);
  const SampleLayout layout = layout_of(context, shape, axes);
  const float *x = context.input(0).data<float>(), *offsets = context.input(1).data<float>(),
              *dy = context.input(2).data<float>(), *mask = optional_data(context, 3);
  if (context.wants_output(0))
    spread_samples(context, layout, WindowSampler(axes, offsets, mask), dy, context.output(0).mutable_data<float>());
  if (!context.wants_output(1)) return;
  Gradients gradients{context.output(1).mutable_data<float>(), nullptr};
  if (context.wants_output(2) && mask != nullptr) gradients.mask = context.output(2).mutable_data<float>();
  sum_slopes(context, layout, WindowSampler(axes, offsets, mask, gradients), x, dy);
}

}  // namespace tessera::backends::cpu
