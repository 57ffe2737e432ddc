// numpy's arrays without the buffer protocol, which costs a call as much as a small net's run.
//
// Uses numpy's C interface through the table that numpy publishes for extensions, whose places and structures are the
// same in numpy 1 and 2 (NumPy C-API, "Array Structure and Data Access"). No header of numpy is needed to build.
#pragma once

#include <nanobind/nanobind.h>

#include "tessera/tensor.h"

namespace tessera::python {

// The memory of a numpy.ndarray (no subclass) that is C-contiguous, aligned, in native byte order and of an element
// type that numpy itself has; the tensor keeps the array. No tensor for anything else. Needs the lock.
Tensor tensor_from_numpy(nanobind::handle object);
// A writable array that shows the tensor's memory and keeps it; null where numpy itself does not have the element type.
// Needs the lock.
nanobind::object numpy_view(const Tensor& tensor);

}  // namespace tessera::python
