// The public conversions (tessera/half.h); inside Tessera the inline ones of base/numbers/half.h are used.
#include "base/error.h"
#include "base/numbers/half.h"
#include "tessera/half.h"

namespace tessera {
namespace {

template <typename From, typename To>
void convert_all(std::span<const From> from, std::span<To> to, To (*convert)(From)) {
  require(from.size() == to.size(), ErrorKind::invalid_argument, "{} elements to convert into {}", from.size(),
          to.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = convert(from[i]);
}

}  // namespace

float to_float(f16_t value) {
  return base::to_float(value);
}
float to_float(bf16_t value) {
  return base::to_float(value);
}
f16_t to_f16(float value) {
  return base::to_f16(value);
}
bf16_t to_bf16(float value) {
  return base::to_bf16(value);
}

void to_float(std::span<const f16_t> from, std::span<float> to) {
  convert_all<f16_t, float>(from, to, [](f16_t value) { return base::to_float(value); });
}
void to_float(std::span<const bf16_t> from, std::span<float> to) {
  convert_all<bf16_t, float>(from, to, [](bf16_t value) { return base::to_float(value); });
}
void to_f16(std::span<const float> from, std::span<f16_t> to) {
  convert_all<float, f16_t>(from, to, [](float value) { return base::to_f16(value); });
}
void to_bf16(std::span<const float> from, std::span<bf16_t> to) {
  convert_all<float, bf16_t>(from, to, [](float value) { return base::to_bf16(value); });
}

}  // namespace tessera
