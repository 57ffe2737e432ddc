// Moves elements of any type without interpreting them, including strings and packed sub-byte types.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::backends::host {

// target[index] = source[offset + sum_k index_k * strides_k] for every index of the target; strides in elements, any
// sign.
void copy_strided(const Tensor& source, std::int64_t offset, const std::vector<std::int64_t>& strides, Tensor& target);

// Copies `count` consecutive elements.
void copy_run(const Tensor& source, std::int64_t from, Tensor& target, std::int64_t to, std::int64_t count);

// Sets every element to element 0 of `value`, which has the same type.
void fill(Tensor& target, const Tensor& value);

// Sets every element to zero, false or the empty string.
void fill_zero(Tensor& target);

// Products of dimensions before, at and after an axis: a tensor as [outer, length, inner].
struct AxisView {
  std::int64_t outer = 1, length = 1, inner = 1;
};
AxisView axis_view(const Shape& shape, std::int64_t axis);

// Calls body(index, position) for every element of `shape` in row-major order.
template <typename Body>
void for_each_index(const Shape& shape, Body body) {
  const std::int64_t count = element_count(shape);
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t position = 0; position < count; ++position) {
    body(static_cast<const std::vector<std::int64_t>&>(index), position);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace tessera::backends::host
