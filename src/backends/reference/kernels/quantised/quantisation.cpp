#include "ops/quantised/quantisation.h"

#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "base/numbers/half.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The index of the scale for each element of a tensor.
class ScaleIndex {
 public:
  ScaleIndex(const Shape& tensor, const Shape& scale, const ops::QuantisationLayout& layout) : layout_(layout) {
    if (layout.kind == ops::QuantisationLayout::Kind::per_tensor) return;
    for (std::size_t i = static_cast<std::size_t>(layout.axis) + 1; i < tensor.size(); ++i) inner_ *= tensor[i];
    length_ = tensor[static_cast<std::size_t>(layout.axis)];
    if (layout.kind == ops::QuantisationLayout::Kind::blocked) blocks_ = scale[static_cast<std::size_t>(layout.axis)];
  }

  std::size_t operator()(std::size_t flat) const {
    const auto i = static_cast<std::int64_t>(flat);
    switch (layout_.kind) {
      case ops::QuantisationLayout::Kind::per_tensor:
        return 0;
      case ops::QuantisationLayout::Kind::per_axis:
        return static_cast<std::size_t>(i / inner_ % length_);
      case ops::QuantisationLayout::Kind::blocked:
        break;
    }
    const std::int64_t outer = i / (inner_ * length_), along = i / inner_ % length_, inside = i % inner_;
    return static_cast<std::size_t>((outer * blocks_ + along / layout_.block_size) * inner_ + inside);
  }

 private:
  ops::QuantisationLayout layout_;
  std::int64_t inner_ = 1, length_ = 1, blocks_ = 1;
};

// The value rounded to this type.
double rounded_to(DType type, double value) {
  switch (type) {
    case DType::f16:
      return base::to_float(base::to_f16(value));
    case DType::bf16:
      return base::to_float(base::to_bf16(value));
    default:
      return static_cast<double>(static_cast<float>(value));
  }
}

struct IntegerRange {
  double low, high;
};

IntegerRange range_of(DType type) {
  const int bits = bits_of(type);
  if (is_signed_integer(type)) return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
  return {0, std::ldexp(1.0, bits) - 1};
}

}  // namespace

void quantize_linear(KernelContext& context) {
  const std::vector<double> x = read<double>(context.input(0)), scales = read<double>(context.input(1));
  const std::vector<double> zeros =
      context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>(scales.size(), 0);
  const ops::QuantisationLayout layout = ops::quantisation_layout(
      context.input(0).shape(), context.input(1).shape(), context.integer("axis"), context.integer("block_size"));
  const ScaleIndex index(context.input(0).shape(), context.input(1).shape(), layout);
  require(zeros.size() == scales.size(), ErrorKind::invalid_model, "{} zero points for {} scales", zeros.size(),
          scales.size());
  // Divides in the scale's precision, unless the attribute says otherwise.
  const std::int64_t precision = context.integer("precision");
  const DType division_type = precision != 0 ? static_cast<DType>(precision) : context.input(1).dtype();
  const DType type = context.output(0).dtype();
  std::vector<double> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t s = index(i);
    const double quotient = rounded_to(division_type, x[i] / scales[s]);
    if (is_float(type)) {
      result[i] = quotient + zeros[s];
    } else {
      const IntegerRange range = range_of(type);
      result[i] =
          std::isnan(quotient) ? zeros[s] : std::clamp(std::nearbyint(quotient) + zeros[s], range.low, range.high);
    }
  }
  if (is_float(type) && bits_of(type) == 8 && context.integer("saturate") == 0) {
    auto* bytes = static_cast<std::uint8_t*>(context.output(0).mutable_raw());
    for (std::size_t i = 0; i < result.size(); ++i)
      bytes[i] = base::float_to_small_float(type, static_cast<float>(result[i]), false);
    return;
  }
  write(result, context.output(0));
}

void dequantize_linear(KernelContext& context) {
  const std::vector<double> scales = read<double>(context.input(1));
  std::vector<double> x = read<double>(context.input(0));
  const std::vector<double> zeros =
      context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>(scales.size(), 0);
  const ops::QuantisationLayout layout = ops::quantisation_layout(
      context.input(0).shape(), context.input(1).shape(), context.integer("axis"), context.integer("block_size"));
  const ScaleIndex index(context.input(0).shape(), context.input(1).shape(), layout);
  require(zeros.size() == scales.size(), ErrorKind::invalid_model, "{} zero points for {} scales", zeros.size(),
          scales.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - zeros[index(i)]) * scales[index(i)];
  write(x, context.output(0));
}

void dynamic_quantize_linear(KernelContext& context) {
  const std::span<const float> x = context.input(0).values<float>();
  float low = 0, high = 0;
  for (float value : x) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  // An infinity in x makes the scale infinite; the zero point is then 0, not the NaN of infinity / infinity.
  const float offset = std::nearbyint(-low / scale);
  const float zero = std::isnan(offset) ? 0.0f : std::clamp(offset, 0.0f, 255.0f);
  *context.output(1).mutable_data<float>() = scale;
  *context.output(2).mutable_data<std::uint8_t>() = static_cast<std::uint8_t>(zero);
  std::uint8_t* y = context.output(0).mutable_data<std::uint8_t>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float quotient = std::nearbyint(x[i] / scale) + zero;
    y[i] = static_cast<std::uint8_t>(std::isnan(quotient) ? zero : std::clamp(quotient, 0.0f, 255.0f));
  }
}

}  // namespace tessera::backends::reference
