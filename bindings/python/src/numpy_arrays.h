// numpy's arrays without the buffer protocol, which costs a call as much as a small net's run.
//
// Uses numpy's C interface through the table that numpy publishes for extensions, whose places and structures are the
// same in numpy 1 and 2 (NumPy C-API, "Array Structure and Data Access"). No header of numpy is needed to build.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "tessera/tensor.h"

namespace tessera::python {

// Of a numpy.ndarray (no subclass) in native byte order and of an element type that numpy itself has: its memory where
// it is C-contiguous and aligned, which the tensor keeps, else a copy. No tensor for anything else. Needs the lock.
Tensor tensor_from_numpy(nanobind::handle object);
// A copy in row-major order of memory with these strides, which may be negative or 0. `data`: of element (0, 0, ...).
// The elements are of at least a byte each; the shape has no 0. Needs the lock. Throws Error(unsupported).
Tensor strided_copy(DType dtype, const Shape& shape, std::span<const std::int64_t> strides_bytes, const void* data);
// A writable array that shows the tensor's memory and keeps it; null where numpy itself does not have the element type.
// Needs the lock.
nanobind::object numpy_view(const Tensor& tensor);

}  // namespace tessera::python
