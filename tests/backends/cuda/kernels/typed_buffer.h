// Values of a kernel's element type in a buffer of the emulated device, and the kernels for each type.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels/number_types.h"
#include "emulation/launch.h"
#include "emulation/number_formats.h"

namespace tessera::cuda {

// The rounding of a value to T and back, and the epsilon of T.
template <class T>
struct NumberType;
template <>
struct NumberType<float> {
  static constexpr double kEpsilon = 0x1p-23;
  static float encode(float value) { return value; }
  static float decode(float value) { return value; }
};
template <>
struct NumberType<Float16> {
  static constexpr double kEpsilon = 0x1p-10;
  static Float16 encode(float value) { return {emulation::encode_f16(value)}; }
  static float decode(Float16 value) { return emulation::decode_f16(value.bits); }
};
template <>
struct NumberType<Bfloat16> {
  static constexpr double kEpsilon = 0x1p-7;
  static Bfloat16 encode(float value) { return {emulation::encode_bf16(value)}; }
  static float decode(Bfloat16 value) { return emulation::decode_bf16(value.bits); }
};

template <class T>
std::vector<T> random_values(std::size_t count, float shift, std::mt19937& random) {
  std::normal_distribution<float> normal(shift, 2);
  std::vector<T> values(count);
  for (T& value : values) value = NumberType<T>::encode(normal(random));
  return values;
}

}  // namespace tessera::cuda
