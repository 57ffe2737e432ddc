// From sums of integers to the result of a quantised layer (ops/quantised_layers.h).
#pragma once

#include <string>

#include "backends/backend.h"
#include "backends/cpu/indirect_product_s8.h"
#include "backends/cpu/kernels/channels_last.h"

namespace tessera::backends::cpu {

// "" or why no kernel takes the layer's operands.
std::string reject_quantised_operands(const ops::NodeView& view);

// What a run needs beside data and weights. With sums s of X W (bytes as they are) the result is
//   x_scale w_scale (s − x_zero Σ w) + bias,
// divided by y_scale, rounded and shifted by y_zero where it is quantised: an integer to start the sum with, a factor and an offset a
// column. They lie in the kernel's scratch memory, `lanes` of each in the order that the kernel wants.
class QuantisedResult {
 public:
  static std::int64_t bytes(std::int64_t lanes) { return 3 * lanes * 4; }
  QuantisedResult(KernelContext& context, const ActivationPlan& activation, std::int64_t lanes);

  // Lane `lane` is that of output channel `output`, whose weights have this sum. Lanes never set are zero.
  void set(std::int64_t lane, std::int64_t output, std::int32_t weight_sum);

  // Of data as unsigned bytes: signed ones are 128 higher there.
  std::uint8_t data_zero() const { return data_zero_; }
  const std::int32_t* start() const { return start_; }
  const float* factor() const { return factor_; }
  const float* offset() const { return offset_; }
  float low() const { return low_; }    // of factor · sum + offset
  float high() const { return high_; }
  std::int32_t zero() const { return zero_; }
  // Where it goes: one of the two, the other is null. Signed bytes are written as they are.
  float* real() const { return real_; }
  std::uint8_t* quantised() const { return quantised_; }
  // What is added to the quantised result; null if nothing.
  const std::uint8_t* addend() const { return addend_; }
  const S8Sum& sum() const { return sum_; }

 private:
  std::uint8_t data_zero_ = 0;
  float data_scale_ = 1, result_scale_ = 1;
  const Tensor *weights_scale_, *bias_ = nullptr;
  std::int32_t* start_;
  float *factor_, *offset_;
  float low_, high_;
  std::int32_t zero_ = 0;
  float* real_ = nullptr;
  std::uint8_t* quantised_ = nullptr;
  const std::uint8_t* addend_ = nullptr;
  S8Sum sum_;
};

}  // namespace tessera::backends::cpu
