#include "backends/cpu/kernels/quantised_result.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;

// Sums of more products of bytes could leave 32 bits.
constexpr std::int64_t kMostTerms = std::numeric_limits<std::int32_t>::max() / (255 * 128);

bool is_constant_or_absent(const ops::NodeView& view, std::size_t i) { return !view.has_input(i) || view.constant(i) != nullptr; }

}  // namespace

std::string reject_quantised_operands(const ops::NodeView& view) {
  const Tensor* weights = view.constant(At::weights);
  if (weights == nullptr || !is_constant_or_absent(view, At::bias) || !is_constant_or_absent(view, At::result_scale) || !is_constant_or_absent(view, At::result_zero))
    return "weights, bias or the result's scale are no constants";
  const Shape& w = weights->shape();
  const std::int64_t terms = view.op().name == ops::quantised_linear.name ? w[0] : w[0] == 0 ? 0 : weights->elements() / w[0];
  if (terms == 0 || terms > kMostTerms) return fmt::format("sums of {} terms", terms);
  if (!view.has_input(At::result_scale)) return reject_activation(view);
  const float scale = *view.constant(At::result_scale)->data<float>();
  if (!(scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max())) return "a scale of the result that is no positive number";
  if (view.has_input(At::addend)) {
    for (const std::size_t i : {At::addend_scale, At::addend_zero, At::sum_scale, At::sum_zero}) {
      if (view.constant(i) == nullptr) return "scales of a sum that are no constants";
    }
    if (view.input(At::addend).dtype != DType::u8) return "a sum of signed bytes";
    if (view.input(At::addend).shape != view.output(0).shape) return "an addend of another shape";
    const float sum_scale = *view.constant(At::sum_scale)->data<float>();
    if (!(sum_scale >= std::numeric_limits<float>::min() && sum_scale <= std::numeric_limits<float>::max())) return "a scale of the sum that is no positive number";
  }
  const bool bounds = !view.has_attribute("activation") || view.text("activation") == "Relu" || view.text("activation") == "Clip";
  return bounds ? "" : "a quantised result of " + view.text("activation");
}

QuantisedResult::QuantisedResult(KernelContext& context, const ActivationPlan& activation, std::int64_t lanes)
    : data_scale_(*context.input(At::data_scale).data<float>()), weights_scale_(&context.input(At::weights_scale)), low_(activation.low), high_(activation.high) {
  const bool signed_data = context.input(At::data).dtype() == DType::i8;
  if (signed_data) data_zero_ = 128;
  if (context.has_input(At::data_zero)) {
    const Tensor& zero = context.input(At::data_zero);
    data_zero_ = signed_data ? static_cast<std::uint8_t>(*zero.data<std::int8_t>() + 128) : *zero.data<std::uint8_t>();
  }
  if (context.has_input(At::bias)) bias_ = &context.input(At::bias);
  std::memset(context.scratch(), 0, static_cast<std::size_t>(bytes(lanes)));
  start_ = reinterpret_cast<std::int32_t*>(context.scratch());
  factor_ = reinterpret_cast<float*>(start_ + lanes);
  offset_ = factor_ + lanes;
  Tensor& y = context.output(0);
  if (y.dtype() == DType::f32) {
    real_ = y.mutable_data<float>();
    return;
  }
  const bool is_signed = y.dtype() == DType::i8;
  result_scale_ = *context.input(At::result_scale).data<float>();
  zero_ = is_signed ? *context.input(At::result_zero).data<std::int8_t>() : *context.input(At::result_zero).data<std::uint8_t>();
  const auto least = static_cast<float>((is_signed ? -128 : 0) - zero_), most = static_cast<float>((is_signed ? 127 : 255) - zero_);
  low_ = std::clamp(low_ / result_scale_, least, most);
  high_ = std::clamp(high_ / result_scale_, least, most);
  quantised_ = static_cast<std::uint8_t*>(y.mutable_raw());
  if (!context.has_input(At::addend)) return;
  addend_ = context.input(At::addend).data<std::uint8_t>();
  const float scale = *context.input(At::sum_scale).data<float>();
  const std::int32_t zero = *context.input(At::sum_zero).data<std::uint8_t>();
  sum_ = {.own = result_scale_ / scale, .other = *context.input(At::addend_scale).data<float>() / scale, .low = static_cast<float>(-zero), .high = static_cast<float>(255 - zero), .zero = zero};
  sum_.shift = -sum_.other * static_cast<float>(*context.input(At::addend_zero).data<std::uint8_t>());
}

void QuantisedResult::set(std::int64_t lane, std::int64_t output, std::int32_t weight_sum) {
  start_[lane] = -static_cast<std::int32_t>(data_zero_) * weight_sum;
  const float* scales = weights_scale_->data<float>();
  factor_[lane] = data_scale_ * scales[weights_scale_->elements() == 1 ? 0 : output] / result_scale_;
  offset_[lane] = bias_ == nullptr ? 0.0f : bias_->data<float>()[output] / result_scale_;
}

}  // namespace tessera::backends::cpu
