// DLPack in both directions, without a copy: tensors of other libraries for Tessera, and Tessera's tensors for them.
// The layout is that of DLPack 1.1 (https://dmlc.github.io/dlpack/latest/c_api.html), the protocol that of the array
// API standard (data interchange mechanisms).
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "tessera/tensor.h"

namespace tessera::python {

// Calls object.__dlpack__(). Throws Error(invalid_argument) for tensors on another device and for element types that
// Tessera does not have. Tensors that are not contiguous are copied.
Tensor tensor_from_dlpack(nanobind::handle object, std::string_view what);
// A capsule that keeps the tensor alive, of the versioned kind if `versioned`. Throws Error(unsupported) for strings
// and for element types of less than a byte.
nanobind::object dlpack_from_tensor(const Tensor& tensor, bool versioned);

}  // namespace tessera::python
