// The computation that the kernels of ConvWeightGradient and ChannelsLastConvWeightGradient
// (ops/convolutions/conv_weight_gradient.h) share, over channels-last data.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

// The geometry of a node of either operator as if its data were channels last. `input` of an axis counts positions of
// X, `output` those of G.
ChannelsLastGeometry weight_gradient_geometry(const ops::NodeView& view);

class WeightGradient {
 public:
  virtual ~WeightGradient() = default;
  virtual std::int64_t scratch_bytes() const { return 0; }
  // x [N, spatial…, C], g [N, spatial…, M], w [M, C / group, taps]; `scratch` is 64-byte aligned.
  virtual void compute(KernelContext& context, const float* x, const float* g, float* w, std::byte* scratch) const = 0;
};

// Computes by the product of G and windows of X.
std::unique_ptr<WeightGradient> make_window_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                std::int64_t groups, std::int64_t outputs);
// Computes by Winograd's algorithm, without groups. The reject rule returns "" or why it cannot, or is not expected to
// be faster.
std::unique_ptr<WeightGradient> make_winograd_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                  std::int64_t outputs);
std::string reject_winograd_weight_gradient(const ChannelsLastGeometry& geometry);
std::string avoid_winograd_weight_gradient(const ChannelsLastGeometry& geometry, std::int64_t outputs);
// Computes for one channel per group.
std::unique_ptr<WeightGradient> make_depthwise_weight_gradient_f32(const ChannelsLastGeometry& geometry);

}  // namespace tessera::backends::cpu
