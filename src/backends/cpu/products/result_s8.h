// Converts integer sums to the result of a quantised layer (ops/quantised/quantised_layers.h).
#pragma once

#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

// Returns "" or why no kernel can take the layer's operands.
std::string reject_operands_s8(const ops::NodeView& view);
// As reject_operands_s8, and rejects what only some kernels take: scale and zero point of the data or a bias that are
// known only at run time, or weights with a zero point other than 0.
std::string reject_varying_operands_s8(const ops::NodeView& view);

// The terms that turn sums into results, for a run that determines scale and zero point.
struct TermsS8 {
  std::uint8_t data_zero = 0;
  const std::int32_t* start = nullptr;
  const float *factor = nullptr, *offset = nullptr;
};

// The terms by which a layer's sums become its results, from the scales, zero points and bias of its node. With sums s
// of X W (bytes as stored) the result is
//   x_scale w_scale (s − x_zero Σ w − w_zero Σ (x − x_zero)) + bias,
// If it is quantised, it is divided by y_scale, rounded and shifted by y_zero. The terms per column are an integer to
// start the sum with, a factor and an offset, `lanes` of each in the order of the kernel. If the result is real, the
// data's scale and zero point and the bias may be known only at run time.
class ResultS8 {
 public:
  ResultS8(const ops::NodeView& view, const ActivationPlan& activation, std::int64_t lanes);

  // Sets the terms of lane `lane`, output channel `output`, whose weights sum to `weight_sum`. Lanes never set are
  // zero.
  void set(const ops::NodeView& view, std::int64_t lane, std::int64_t output, std::int32_t weight_sum);

  bool varies() const { return varies_; }
  // If terms vary by run: the bytes they need, a multiple of 64, and the terms in these bytes. Otherwise 0 and the
  // terms that are the same in every run.
  std::int64_t run_bytes() const { return varies_ ? 3 * 4 * base::round_up(lanes(), 16) : 0; }
  TermsS8 terms(const KernelContext& context, std::byte* memory) const;

  // The factor per column on the sum of a window of data, if weights have a zero point; otherwise null.
  const std::int32_t* shift() const { return shift_.empty() ? nullptr : shift_.data(); }
  // The zero point of the data as unsigned bytes (signed data is stored 128 higher).
  std::uint8_t data_zero() const { return data_zero_; }
  const std::int32_t* start() const { return start_.data(); }
  const float* factor() const { return factor_.data(); }
  const float* offset() const { return offset_.data(); }
  float low() const { return low_; }  // of factor · sum + offset
  float high() const { return high_; }
  std::int32_t zero() const { return zero_; }
  const S8Sum& sum() const { return sum_; }  // if something is added to the quantised result

 private:
  std::int64_t lanes() const { return static_cast<std::int64_t>(start_.size()); }

  bool varies_ = false, signed_data_ = false;
  std::uint8_t data_zero_ = 0;
  float result_scale_ = 1;
  std::vector<std::int32_t> start_, shift_;  // if terms vary: for a zero point of 1
  std::vector<std::int32_t> outputs_;        // if terms vary, by lane; -1: none
  std::vector<float> factor_, offset_;       // if terms vary: without the data's scale, without the bias
  float low_, high_;
  std::int32_t zero_ = 0;
  S8Sum sum_;
};

// The output of a run: one of the two results, the other is null (signed bytes are stored as they are); and its addend,
// or null.
struct OutputS8 {
  explicit OutputS8(KernelContext& context);

  float* real = nullptr;
  std::uint8_t* quantised = nullptr;
  const std::uint8_t* addend = nullptr;
};

}  // namespace tessera::backends::cpu
