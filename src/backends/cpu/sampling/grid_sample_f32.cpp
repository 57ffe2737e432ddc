// GridSample of float32 images and its gradients: blocks of samples in parallel.
#include <memory>

#include "backends/cpu/sampling/kernels.h"
#include "backends/cpu/sampling/sample_block.h"
#include "backends/host/grid_taps.h"

namespace tessera::backends::cpu {
namespace {

class GridSampler final : public Sampler {
 public:
  // `dgrid` may be null.
  GridSampler(const host::GridSampling& sampling, const float* grid, std::int64_t samples, float* dgrid = nullptr)
      : sampling_(sampling), grid_(grid), samples_(samples), dgrid_(dgrid) {}

  void fill(std::int64_t image, std::int64_t first, SampleBlock& block, SlopeBlock* slopes) const override {
    for (std::int64_t s = 0; s < block.count; ++s) {
      // The coordinate of the last axis comes first.
      const float* place = grid_ + (image * samples_ + first + s) * 2;
      const host::GridTap y = grid_tap(sampling_, 0, place[1], true), x = grid_tap(sampling_, 1, place[0], true);
      int k = 0;
      for (int i = 0; i < y.count; ++i) {
        const std::int64_t row = grid_pixel(sampling_, 0, y.first + i);
        for (int j = 0; j < x.count; ++j, ++k) {
          const std::int64_t column = grid_pixel(sampling_, 1, x.first + j);
          const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
          block.index[k][s] =
              row < 0 || column < 0 ? -1 : static_cast<std::int32_t>(row * sampling_.extents[1].size + column);
          block.weight[k][s] = static_cast<float>(y.weights[a] * x.weights[b]);
          if (slopes == nullptr) continue;
          slopes->slope[0][k][s] = static_cast<float>(y.slopes[a] * x.weights[b] * grid_scale(sampling_, 0));
          slopes->slope[1][k][s] = static_cast<float>(y.weights[a] * x.slopes[b] * grid_scale(sampling_, 1));
        }
      }
      block.taps = k;
    }
    if (slopes != nullptr) slopes->kinds = 2;
  }

  void store(std::int64_t image, std::int64_t first, std::int64_t count, const float* sums) const override {
    float* to = dgrid_ + (image * samples_ + first) * 2;
    for (std::int64_t s = 0; s < count; ++s) {
      to[2 * s] = sums[SampleBlock::kSamples + s];
      to[2 * s + 1] = sums[s];
    }
  }

 private:
  const host::GridSampling& sampling_;
  const float* grid_;
  std::int64_t samples_;
  float* dgrid_;
};

SampleLayout layout_of(const Shape& image, const Shape& grid) {
  return {image[0], image[1], image[2] * image[3], grid[1] * grid[2]};
}

}  // namespace

std::string reject_grid_sample_f32(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.input(i).dtype != DType::f32) return "takes f32";
  }
  if (view.input(0).shape.size() != 4) return "takes images of two axes";
  return layout_of(view.input(0).shape, view.input(1).shape).fault();
}

void grid_sample_f32(KernelContext& context) {
  const Shape& image = context.input(0).shape();
  const SampleLayout layout = layout_of(image, context.input(1).shape());
  const host::GridSampling sampling = host::read_grid_sampling(context, image);
  sample_planes(context, layout, GridSampler(sampling, context.input(1).data<float>(), layout.samples),
                context.input(0).data<float>(), context.output(0).mutable_data<float>());
}

void grid_sample_gradient_f32(KernelContext& context) {
  const Shape& image = context.input(0).shape();
  const SampleLayout layout = layout_of(image, context.input(1).shape());
  const host::GridSampling sampling = host::read_grid_sampling(context, image);
  const float *x = context.input(0).data<float>(), *grid = context.input(1).data<float>(),
              *dy = context.input(2).data<float>();
  if (context.wants_output(0))
    spread_samples(context, layout, GridSampler(sampling, grid, layout.samples), dy,
                   context.output(0).mutable_data<float>());
  if (context.wants_output(1))
    sum_slopes(context, layout, GridSampler(sampling, grid, layout.samples, context.output(1).mutable_data<float>()), x,
               dy);
}

}  // namespace tessera::backends::cpu
