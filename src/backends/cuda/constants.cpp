#include "backends/cuda/constants.h"

#include <cstring>

#include "base/numbers/half.h"

namespace tessera::backends::cuda {
namespace {

void copy(const Tensor& constant, std::byte* to) {
  std::memcpy(to, constant.raw(), static_cast<std::size_t>(constant.bytes()));
}

void widen(const Tensor& constant, std::byte* to) {
  auto* const floats = reinterpret_cast<float*>(to);
  const auto count = static_cast<std::size_t>(constant.elements());
  for (std::size_t i = 0; i < count; ++i) {
    floats[i] = constant.dtype() == DType::f32   ? constant.values<float>()[i]
                : constant.dtype() == DType::f16 ? base::to_float(constant.values<f16_t>()[i])
                                                 : base::to_float(constant.values<bf16_t>()[i]);
  }
}

void transpose(const Tensor& constant, std::byte* to) {
  const std::int64_t depth = constant.shape()[0], columns = constant.shape()[1];
  const auto bytes = static_cast<std::size_t>(bits_of(constant.dtype()) / 8);
  const auto* const from = static_cast<const std::byte*>(constant.raw());
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t column = 0; column < columns; ++column)
      std::memcpy(to + static_cast<std::size_t>(column * depth + k) * bytes,
                  from + static_cast<std::size_t>(k * columns + column) * bytes, bytes);
  }
}

}  // namespace

std::shared_ptr<const PackedWeights> pack_as_is(WeightStore& weights, const Tensor& constant) {
  return weights.find_or_pack(constant, "cuda_as_is_v1", constant.bytes(), copy);
}

std::shared_ptr<const PackedWeights> pack_as_floats(WeightStore& weights, const Tensor& constant) {
  return weights.find_or_pack(constant, "cuda_floats_v1",
                              constant.elements() * static_cast<std::int64_t>(sizeof(float)), widen);
}

std::shared_ptr<const PackedWeights> pack_transposed(WeightStore& weights, const Tensor& constant) {
  return weights.find_or_pack(constant, "cuda_transposed_v1", constant.bytes(), transpose);
}

}  // namespace tessera::backends::cuda
