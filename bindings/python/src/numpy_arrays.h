// Accesses numpy's arrays without the buffer protocol, which costs a call as much time as a small net's run.
//
// Uses numpy's C interface through the table that numpy publishes for extensions, whose entries and structures are the
// same in numpy 1 and 2 (NumPy C-API, "Array Structure and Data Access"). numpy's headers are not needed to build.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "tessera/tensor.h"

namespace tessera::python {

// The tensor of a numpy.ndarray (no subclass) in native byte order and of an element type that numpy itself has. It
// uses the array's memory and keeps it alive if that is C-contiguous and aligned; otherwise it is a copy. Returns no
// tensor for other objects. Needs the lock.
Tensor tensor_from_numpy(nanobind::handle object);
// A row-major copy of memory with these strides, which may be negative or 0. `data` points to element (0, 0, ...).
// Elements have at least one byte; the shape must not contain 0. Needs the lock. Throws Error(unsupported).
Tensor strided_copy(DType dtype, const Shape& shape, std::span<const std::int64_t> strides_bytes, const void* data);
// A writable array that shares the tensor's memory and keeps it alive; null if numpy itself does not have the element
// type. Needs the lock.
nanobind::object numpy_view(const Tensor& tensor);

}  // namespace tessera::python
