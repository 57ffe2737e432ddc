#include <cmath>
#include <cstring>
#include <string>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/number_text.h"
#include "base/numbers/half.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

void cast_to_text(const Tensor& input, Tensor& output) {
  std::string* text = output.mutable_data<std::string>();
  if (input.dtype() == DType::boolean) {
    for (std::int64_t i = 0; i < input.elements(); ++i) text[i] = input.data<bool>()[i] ? "True" : "False";
    return;
  }
  with_wide_type(input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> values = read<T>(input);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) text[i] = float_to_text(values[i], input.dtype());
      else text[i] = std::to_string(values[i]);
    }
  });
}

// Text is converted to bool as a number, or as "True" or "False", the text of bools.
double text_to_truth(const std::string& text) {
  if (text == "True" || text == "true") return 1;
  if (text == "False" || text == "false") return 0;
  return text_to_float(text);
}

void cast_from_text(const Tensor& input, Tensor& output) {
  const std::span<const std::string> text = input.values<std::string>();
  with_wide_type(output.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values;
    values.reserve(text.size());
    for (const std::string& element : text) {
      if constexpr (std::is_floating_point_v<T>) values.push_back(text_to_float(element));
      else if (output.dtype() == DType::boolean) values.push_back(text_to_truth(element) != 0 ? T{1} : T{0});
      else values.push_back(text_to_integer<T>(element));
    }
    write(values, output);
  });
}

// The power of two 2^(bits - 127) for a value, by the table in ONNX's description of Cast; 0xFF is NaN.
std::uint8_t to_scale(double value, bool saturate, const std::string& mode) {
  constexpr std::uint8_t nan = 0xFF, largest = 0xFE;
  if (std::isnan(value) || value < 0) return nan;
  if (value == 0) return saturate ? 0 : nan;
  if (std::isinf(value)) return saturate ? largest : nan;
  int exponent = 0;
  const double fraction = 2 * std::frexp(value, &exponent);  // value = fraction * 2^(exponent - 1), fraction in [1, 2)
  const bool up = mode == "up" ? fraction > 1 : mode == "nearest" && fraction >= 1.5;
  const int biased = exponent - 1 + (up ? 1 : 0) + 127;
  if (biased < 0) return saturate ? 0 : nan;
  if (biased > largest) return saturate ? largest : nan;
  return static_cast<std::uint8_t>(biased);
}

bool is_eight_bit_float(DType type) {
  return is_float(type) && bits_of(type) == 8;
}

void cast_tensor(const KernelContext& context, const Tensor& input, Tensor& output) {
  const DType from = input.dtype(), to = output.dtype();
  if (from == to) {
    for (std::int64_t i = 0; i < input.elements(); ++i) copy_element(input, i, output, i);
  } else if (from == DType::string) {
    cast_from_text(input, output);
  } else if (to == DType::string) {
    cast_to_text(input, output);
  } else if (is_eight_bit_float(to)) {
    const bool saturate = context.integer("saturate") != 0;
    const std::vector<double> values = read<double>(input);
    auto* bytes = static_cast<std::uint8_t*>(output.mutable_raw());
    for (std::size_t i = 0; i < values.size(); ++i) {
      bytes[i] = to == DType::f8e8m0 ? to_scale(values[i], saturate, context.text("round_mode"))
                                     : base::float_to_small_float(to, static_cast<float>(values[i]), saturate);
    }
  } else {
    with_wide_type(from, [&](auto zero) { write(read<decltype(zero)>(input), output); });
  }
}

}  // namespace

void cast(KernelContext& context) {
  cast_tensor(context, context.input(0), context.output(0));
}

void cast_like(KernelContext& context) {
  cast_tensor(context, context.input(0), context.output(0));
}

void bit_cast(KernelContext& context) {
  Tensor& output = context.output(0);
  if (output.bytes() > 0)
    std::memcpy(output.mutable_raw(), context.input(0).raw(), static_cast<std::size_t>(output.bytes()));
}

}  // namespace tessera::backends::reference
