#include "backends/cpu/products/result_s8.h"

#include <algorithm>
#include <limits>

#include "ops/quantised/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;

// The most products of two bytes whose sum fits 32 bits.
constexpr std::int64_t kMostTerms = std::numeric_limits<std::int32_t>::max() / (255 * 128),
                       kMostShiftedTerms = std::numeric_limits<std::int32_t>::max() / (255 * 255);

bool is_constant_or_absent(const ops::NodeView& view, std::size_t i) {
  return !view.has_input(i) || view.constant(i) != nullptr;
}

bool varies(const ops::NodeView& view) {
  return !is_constant_or_absent(view, At::bias) || !is_constant_or_absent(view, At::data_scale) ||
         !is_constant_or_absent(view, At::data_zero);
}

std::int32_t byte_of(const Tensor& tensor, std::int64_t i = 0) {
  return tensor.dtype() == DType::i8 ? tensor.data<std::int8_t>()[i] : tensor.data<std::uint8_t>()[i];
}

}  // namespace

std::string reject_operands_s8(const ops::NodeView& view) {
  const Tensor* weights = view.constant(At::weights);
  for (const std::size_t i : {At::weights, At::weights_scale, At::weights_zero, At::result_scale, At::result_zero}) {
    if (!is_constant_or_absent(view, i))
      return "weights, or scales or zero points of weights or result, are no constants";
  }
  const bool shifts = view.has_input(At::weights_zero);
  if (view.has_input(At::result_scale) && (shifts || varies(view)))
    return "a quantised result of operands that are known at run time, or of weights around another zero point";
  if (shifts && view.input(At::data).dtype != DType::u8) return "signed data and weights around another zero point";
  const Shape& w = weights->shape();
  const std::int64_t terms = view.op().name == ops::quantised_linear.name ? w[0]
                             : w[0] == 0                                  ? 0
                                                                          : weights->elements() / w[0];
  if (terms == 0 || terms > (shifts ? kMostShiftedTerms : kMostTerms)) return fmt::format("sums of {} terms", terms);
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

std::string reject_varying_operands_s8(const ops::NodeView& view) {
  if (std::string reason = reject_operands_s8(view); !reason.empty()) return reason;
  if (varies(view)) return "a bias, scale or zero point that is no constant";
  return view.has_input(At::weights_zero) ? "weights around another zero point" : "";
}

ResultS8::ResultS8(const ops::NodeView& view, const ActivationPlan& activation, std::int64_t lanes)
    : varies_(cpu::varies(view)),
      signed_data_(view.input(At::data).dtype == DType::i8),
      start_(static_cast<std::size_t>(lanes)),
      shift_(static_cast<std::size_t>(view.has_input(At::weights_zero) ? lanes : 0)),
      outputs_(static_cast<std::size_t>(varies_ ? lanes : 0), -1),
      factor_(static_cast<std::size_t>(lanes)),
      offset_(static_cast<std::size_t>(lanes)),
      low_(activation.low),
      high_(activation.high) {
  const auto real_at = [&](std::size_t i) { return *view.constant(i)->data<float>(); };
  const auto byte_at = [&](std::size_t i) { return byte_of(*view.constant(i)); };
  if (!varies_) {
    data_zero_ = static_cast<std::uint8_t>((view.has_input(At::data_zero) ? byte_at(At::data_zero) : 0) +
                                           (signed_data_ ? 128 : 0));
  }
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
  const float scale = scales.data<float>()[scales.elements() == 1 ? 0 : output];
  if (view.has_input(At::weights_zero)) {
    const Tensor& zeros = *view.constant(At::weights_zero);
    shift_[at] = -byte_of(zeros, zeros.elements() == 1 ? 0 : output);
  }
  if (varies_) {
    start_[at] = -weight_sum;
    factor_[at] = scale;
    outputs_[at] = static_cast<std::int32_t>(output);
    return;
  }
  start_[at] = -static_cast<std::int32_t>(data_zero_) * weight_sum;
  factor_[at] = *view.constant(At::data_scale)->data<float>() * scale / result_scale_;
  offset_[at] = view.has_input(At::bias) ? view.constant(At::bias)->data<float>()[output] / result_scale_ : 0.0f;
}

TermsS8 ResultS8::terms(const KernelContext& context, std::byte* memory) const {
  if (!varies_) return {data_zero_, start(), factor(), offset()};
  const auto zero = static_cast<std::uint8_t>(
      (context.has_input(At::data_zero) ? byte_of(context.input(At::data_zero)) : 0) + (signed_data_ ? 128 : 0));
  const float scale = *context.input(At::data_scale).data<float>();
  const float* bias = context.has_input(At::bias) ? context.input(At::bias).data<float>() : nullptr;
  const std::int64_t room = run_bytes() / (3 * 4);
  auto* starts = reinterpret_cast<std::int32_t*>(memory);
  auto* factors = reinterpret_cast<float*>(starts + room);
  float* offsets = factors + room;
  for (std::int64_t i = 0; i < lanes(); ++i) {
    const auto lane = static_cast<std::size_t>(i);
    starts[i] = start_[lane] * zero;
    factors[i] = factor_[lane] * scale;
    offsets[i] = bias != nullptr && outputs_[lane] >= 0 ? bias[outputs_[lane]] : 0.0f;
  }
  return {zero, starts, factors, offsets};
}

OutputS8::OutputS8(KernelContext& context) {
  Tensor& y = context.output(0);
  if (y.dtype() == DType::f32) real = y.mutable_data<float>();
  else quantised = static_cast<std::uint8_t*>(y.mutable_raw());
  if (context.has_input(At::addend)) addend = context.input(At::addend).data<std::uint8_t>();
}

}  // namespace tessera::backends::cpu
