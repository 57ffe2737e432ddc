// From sums of integers to the result of a quantised layer (ops/quantised/quantised_layers.h).
#pragma once

#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

// "" or why no kernel takes the layer's operands.
std::string reject_operands_s8(const ops::NodeView& view);
// Also why only some do: data's scale and zero point or the bias are known at run time only, or weights are not around
// zero.
std::string reject_varying_operands_s8(const ops::NodeView& view);

// The terms that turn sums into results, of a run whose scale and zero point are known only then.
struct TermsS8 {
  std::uint8_t data_zero = 0;
  const std::int32_t* start = nullptr;
  const float *factor = nullptr, *offset = nullptr;
};

// What becomes of a layer's sums, from the scales, zero points and bias of its node. With sums s of X W (bytes as they
// are) the result is
//   x_scale w_scale (s − x_zero Σ w − w_zero Σ (x − x_zero)) + bias,
// divided by y_scale, rounded and shifted by y_zero where it is quantised: an integer to start the sum with, a factor
// and an offset a column, `lanes` of each in the order that the kernel wants. Where the result is real, the data's
// scale and zero point and the bias may be known at run time only.
class ResultS8 {
 public:
  ResultS8(const ops::NodeView& view, const ActivationPlan& activation, std::int64_t lanes);

  // Lane `lane` is that of output channel `output`, whose weights have this sum. Lanes never set are zero.
  void set(const ops::NodeView& view, std::int64_t lane, std::int64_t output, std::int32_t weight_sum);

  bool varies() const { return varies_; }
  // Where it varies: bytes for the terms of a run, a multiple of 64, and the terms in them. Otherwise those that are
  // the same in every run.
  std::int64_t run_bytes() const { return varies_ ? 3 * 4 * base::round_up(lanes(), 16) : 0; }
  TermsS8 terms(const KernelContext& context, std::byte* memory) const;

  // By column, where weights have a zero point: what a sum of a window of data is multiplied with. Otherwise null.
  const std::int32_t* shift() const { return shift_.empty() ? nullptr : shift_.data(); }
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
  std::int64_t lanes() const { return static_cast<std::int64_t>(start_.size()); }

  bool varies_ = false, signed_data_ = false;
  std::uint8_t data_zero_ = 0;
  float result_scale_ = 1;
  std::vector<std::int32_t> start_, shift_;  // where it varies: for a zero point of 1
  std::vector<std::int32_t> outputs_;        // where it varies, by lane; -1: none
  std::vector<float> factor_, offset_;       // where it varies: without the data's scale, without the bias
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
