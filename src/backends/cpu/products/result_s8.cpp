#include "backends/cpu/products/result_s8.h"

#include <algorithm>
#include <limits>

#include "ops/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;

// Sums of more products of bytes could leave 32 bits.
constexpr std::int64_t kMostTerms = std::numeric_limits<std::int32_t>::max() / (255 * 128);

bool is_constant_or_absent(const ops::NodeView& view, std::size_t i) {
  return !view.has_input(i) || view.constant(i) != nullptr;
}

}  // namespace

std::string reject_operands_s8(const ops::NodeView& view) {
  const Tensor* weights = view.constant(At::weights);
  for (std::size_t i = At::weights; i < At::addend; ++i) {
    if (!is_constant_or_absent(view, i)) return "weights, bias, scales or zero points are no constants";
  }
  const Shape& w = weights->shape();
  const std::int64_t terms = view.op().name == ops::quantised_linear.name ? w[0]
                             : w[0] == 0                                  ? 0
                                                                          : weights->elements() / w[0];
  if (terms == 0 || terms > kMostTerms) return fmt::format("sums of {} terms", terms);
  if (!view.has_input(At::result_scale)) return reject_activation(view);
  const float scale = *view.constant(At::result_scale)->data<float>();
  if (!(scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max()))
    return "a scale of the result that is no positive number";
  if (view.has_input(At::addend)) {
    for (const std::size_t i : {At::addend_scale, At::addend_zero, At::sum_scale, At::sum_zero}) {
      if (view.constant(i) == nullptr) return "scales of a sum that are no constants";
    }
    if (view.input(At::addend).dtype != DType::u8) return "a sum of signed bytes";
    if (view.input(At::addend).shape != view.output(0).shape) return "an addend of another shape";
    const float sum_scale = *view.constant(At::sum_scale)->data<float>();
    if (!(sum_scale >= std::numeric_limits<float>::min() && sum_scale <= std::numeric_limits<float>::max()))
      return "a scale of the sum that is no positive number";
  }
  const bool bounds = reject_activation(view).empty() && plan_activation(view).after.function == nullptr;
  return bounds ? "" : "a quantised result of " + view.text("activation");
}

ResultS8::ResultS8(const ops::NodeView& view, const ActivationPlan& activation, std::int64_t lanes)
    : start_(static_cast<std::size_t>(lanes)),
      factor_(static_cast<std::size_t>(lanes)),
      offset_(static_cast<std::size_t>(lanes)),
      low_(activation.low),
      high_(activation.high) {
  const auto real_at = [&](std::size_t i) { return *view.constant(i)->data<float>(); };
  const auto byte_at = [&](std::size_t i) -> std::int32_t {
    return view.constant(i)->dtype() == DType::i8 ? *view.constant(i)->data<std::int8_t>()
                                                  : *view.constant(i)->data<std::uint8_t>();
  };
  const bool signed_data = view.input(At::data).dtype == DType::i8;
  data_zero_ =
      static_cast<std::uint8_t>((view.has_input(At::data_zero) ? byte_at(At::data_zero) : 0) + (signed_data ? 128 : 0));
  if (view.output(0).dtype == DType::f32) return;
  const bool is_signed = view.constant(At::result_zero)->dtype() == DType::i8;
  result_scale_ = real_at(At::result_scale);
  zero_ = byte_at(At::result_zero);
  const auto least = static_cast<float>((is_signed ? -128 : 0) - zero_),
             most = static_cast<float>((is_signed ? 127 : 255) - zero_);
  low_ = std::clamp(low_ / result_scale_, least, most);
  high_ = std::clamp(high_ / result_scale_, least, most);
  if (!view.has_input(At::addend)) return;
  const float scale = real_at(At::sum_scale);
  const std::int32_t zero = byte_at(At::sum_zero);
  sum_ = {.own = result_scale_ / scale,
          .other = real_at(At::addend_scale) / scale,
          .low = static_cast<float>(-zero),
          .high = static_cast<float>(255 - zero),
          .zero = zero};
  sum_.shift = -sum_.other * static_cast<float>(byte_at(At::addend_zero));
}

void ResultS8::set(const ops::NodeView& view, std::int64_t lane, std::int64_t output, std::int32_t weight_sum) {
  const auto at = static_cast<std::size_t>(lane);
  const Tensor& scales = *view.constant(At::weights_scale);
  start_[at] = -static_cast<std::int32_t>(data_zero_) * weight_sum;
  factor_[at] = *view.constant(At::data_scale)->data<float>() *
                scales.data<float>()[scales.elements() == 1 ? 0 : output] / result_scale_;
  offset_[at] = view.has_input(At::bias) ? view.constant(At::bias)->data<float>()[output] / result_scale_ : 0.0f;
}

OutputS8::OutputS8(KernelContext& context) {
  Tensor& y = context.output(0);
  if (y.dtype() == DType::f32) real = y.mutable_data<float>();
  else quantised = static_cast<std::uint8_t*>(y.mutable_raw());
  if (context.has_input(At::addend)) addend = context.input(At::addend).data<std::uint8_t>();
}

}  // namespace tessera::backends::cpu
