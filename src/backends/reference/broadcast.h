// Reads operands that broadcast to a common shape.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

// For every element of `output` in row-major order, the index of the element of an operand of shape `input`.
inline std::vector<std::int64_t> broadcast_positions(const Shape& input, const Shape& output) {
  const std::vector<std::int64_t> strides = broadcast_strides(input, output);
  std::vector<std::int64_t> positions = transient_vector<std::int64_t>(element_count(output));
  std::vector<std::int64_t> index(output.size(), 0);
  for (std::int64_t& position : positions) {
    position = 0;
    for (std::size_t i = 0; i < index.size(); ++i) position += index[i] * strides[i];
    advance(index, output);
  }
  return positions;
}

// The elements of a tensor as T, broadcast to `shape`.
template <typename T>
std::vector<T> read_broadcast(const Tensor& tensor, const Shape& shape) {
  std::vector<T> own = read<T>(tensor);
  if (tensor.shape() == shape) return own;
  const std::vector<std::int64_t> positions = broadcast_positions(tensor.shape(), shape);
  std::vector<T> result = transient_vector<T>(static_cast<std::int64_t>(positions.size()));
  for (std::size_t i = 0; i < positions.size(); ++i) result[i] = own[static_cast<std::size_t>(positions[i])];
  return result;
}

}  // namespace tessera::backends::reference
