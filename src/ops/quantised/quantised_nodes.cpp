#include "ops/quantised/quantised_nodes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tessera::ops {
namespace {

void give_name(GraphBuilder& builder, ir::ValueId value, std::string name) {
  if (!name.empty()) builder.graph().value(value).name = std::move(name);
}

}  // namespace

QuantisedValue quantise_value(GraphBuilder& builder, ir::ValueId value, ir::ValueId scale, ir::ValueId zero_point,
                              QuantisedNames names) {
  const ir::ValueId integers = builder.add("QuantizeLinear", {value, scale, zero_point});
  give_name(builder, integers, std::move(names.integers));
  const ir::ValueId real = builder.add("DequantizeLinear", {integers, scale, zero_point});
  give_name(builder, real, std::move(names.real));
  return {integers, real};
}

QuantisedValue dequantise_constant(GraphBuilder& builder, Tensor integers, Tensor scales, std::int64_t axis,
                                   QuantisedNames names) {
  const DType type = integers.dtype();
  const std::int64_t channels = scales.elements();
  const ir::ValueId constant = builder.constant(std::move(integers), std::move(names.integers));
  std::vector<ir::ValueId> inputs{constant, builder.constant(std::move(scales))};
  if (type != DType::i4) {  // other programs fuse layers of 8 bits only where the zeros are written out
    Tensor zeros(type, {channels});
    std::fill_n(static_cast<std::byte*>(zeros.mutable_raw()), zeros.bytes(), std::byte{0});
    inputs.push_back(builder.constant(std::move(zeros)));
  }
  const ir::ValueId real = builder.add("DequantizeLinear", std::move(inputs), {{"axis", axis}});
  give_name(builder, real, std::move(names.real));
  return {constant, real};
}

std::optional<QuantisedValue> dequantise_bias(GraphBuilder& builder, std::span<const double> bias,
                                              const Tensor& weight_scales, double data_scale, QuantisedNames names) {
  const auto channels = static_cast<std::int64_t>(bias.size());
  Tensor integers(DType::i32, {channels}), scales(DType::f32, {channels});
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto unit = static_cast<float>(data_scale * static_cast<double>(weight_scales.data<float>()[c]));
    const double number = std::nearbyint(bias[static_cast<std::size_t>(c)] / static_cast<double>(unit));
    if (!(std::abs(number) < 0x1p31)) return std::nullopt;
    scales.mutable_data<float>()[c] = unit;
    integers.mutable_data<std::int32_t>()[c] = static_cast<std::int32_t>(number);
  }
  return dequantise_constant(builder, std::move(integers), std::move(scales), 0, std::move(names));
}

}  // namespace tessera::ops
