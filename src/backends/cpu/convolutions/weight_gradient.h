// The computation behind the kernels for ConvWeightGradient and ChannelsLastConvWeightGradient
// (ops/convolutions/conv_weight_gradient.h), over data with the channels last.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

// The geometry of a node of either operator as if its data had the channels last. The `input` of an axis are positions
// of X, its `output` positions of G.
ChannelsLastGeometry weight_gradient_geometry(const ops::NodeView& view);

class WeightGradient {
 public:
  virtual ~WeightGradient() = default;
  virtual std::int64_t scratch_bytes() const { return 0; }
  // x [N, spatial…, C], g [N, spatial…, M], w [M, C / group, taps]; `scratch` is 64-byte aligned.
  virtual void compute(KernelContext& context, const float* x, const float* g, float* w, std::byte* scratch) const = 0;
};

// By the product of G and windows of X.
std::unique_ptr<WeightGradient> make_window_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                std::int64_t groups, std::int64_t outputs);
// By Winograd's algorithm, without groups; "" or why it cannot, or is not expected to be faster.
std::unique_ptr<WeightGradient> make_winograd_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                  std::int64_t outputs);
std::string reject_winograd_weight_gradient(const ChannelsLastGeometry& geometry);
std::string avoid_winograd_weight_gradient(const ChannelsLastGeometry& geometry, std::int64_t outputs);
// For one channel a group.
std::unique_ptr<WeightGradient> make_depthwise_weight_gradient_f32(const ChannelsLastGeometry& geometry);

}  // namespace tessera::backends::cpu
