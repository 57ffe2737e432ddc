// Walking operands that broadcast to a common shape.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/reference/numeric.h"

namespace tessera::backends::reference {

// For every element of `output` in row-major order, the element of an operand of shape `input` that it is made from.
inline std::vector<std::int64_t> broadcast_positions(const Shape& input, const Shape& output) {
  const std::vector<std::int64_t> strides = broadcast_strides(input, output);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(element_count(output)));
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
  std::vector<T> result;
  const std::vector<std::int64_t> positions = broadcast_positions(tensor.shape(), shape);
  result.reserve(positions.size());
  for (const std::int64_t position : positions) result.push_back(own[static_cast<std::size_t>(position)]);
  return result;
}

}  // namespace tessera::backends::reference
