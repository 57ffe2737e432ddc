// Tensors over memory that the caller owns and that nobody may write.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "tessera/export.h"
#include "tessera/tensor.h"

namespace tessera {

// A tensor that reads the byte_count(type, shape) bytes at `data` in place. They must stay valid and unchanged while
// the tensor or a copy of it lives; the caller ensures that, or `owner` does. Runs never write to their inputs; nobody
// else may write through mutable_data() of such a tensor. Not for strings.
TESSERA_API Tensor view_of(DType type, Shape shape, const void* data, std::shared_ptr<const void> owner = nullptr);

// A view of elements of a C++ type. Throws Error(invalid_argument) when their count is not that of the shape.
template <typename T>
Tensor view_of(Shape shape, std::span<const T> values) {
  if (element_count(shape) != static_cast<std::int64_t>(values.size()))
    return Tensor::from<T>(std::move(shape), values);  // throws
  return view_of(dtype_of<T>, std::move(shape), values.data());
}

}  // namespace tessera
