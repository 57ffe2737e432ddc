// From sums of integers to the result of a quantised layer (ops/quantised_layers.h).
#pragma once

#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/indirect_product_s8.h"

namespace tessera::backends::cpu {

// "" or why no kernel takes the layer's operands.
std::string reject_operands_s8(const ops::NodeView& view);

// What becomes of a layer's sums, from the scales, zero points and bias of its node, all of them constants. With sums s
// of X W (bytes as they are) the result is
//   x_scale w_scale (s − x_zero Σ w) + bias,
// divided by y_scale, rounded and shifted by y_zero where it is quantised: an integer to start the sum with, a factor
// and an offset a column, `lanes` of each in the order that the kernel wants.
class ResultS8 {
 public:
  ResultS8(const ops::NodeView& view, const ActivationPlan& activation, std::int64_t lanes);

  // Lane `lane` is that of output channel `output`, whose weights have this sum. Lanes never set are zero.
  void set(const ops::NodeView& view, std::int64_t lane, std::int64_t output, std::int32_t weight_sum);

  // Of data as unsigned bytes: signed ones are 128 higher there.
  std::uint8_t data_zero() const { return data_zero_; }
  const std::int32_t* start() const { return start_.data(); }
  const float* factor() const { return factor_.data(); }
  const float* offset() const { return offset_.data(); }
  float low() const { return low_; }  // of factor · sum + offset
  float high() const { return high_; }
  std::int32_t zero() const { return zero_; }
  const S8Sum& sum() const { return sum_; }  // where something is added to the quantised result

 private:
  std::uint8_t data_zero_ = 0;
  float result_scale_ = 1;
  std::vector<std::int32_t> start_;
  std::vector<float> factor_, offset_;
  float low_, high_;
  std::int32_t zero_ = 0;
  S8Sum sum_;
};

// Where a run writes: one of the two, the other is null (signed bytes are written as they are); and what it adds, or
// null.
struct OutputS8 {
  explicit OutputS8(KernelContext& context);

  float* real = nullptr;
  std::uint8_t* quantised = nullptr;
  const std::uint8_t* addend = nullptr;
};

}  // namespace tessera::backends::cpu
