// Tensors from Python's arrays and back.
//
// To Tessera: whatever is C-contiguous, aligned and in native byte order is read where it lies, through the buffer
// protocol or DLPack, and kept alive by the tensor; the array must not change while the tensor lives. Everything else
// is copied once: other strides, other byte orders, element types of less than a byte (Tessera packs them), strings,
// and what numpy.asarray has to make an array of.
// To Python: an array shows the tensor's own memory and keeps it, except strings and element types of less than a byte.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "tessera/tensor.h"

namespace tessera::python {

// A tensor that Python holds. It has the buffer protocol and DLPack.
struct PyTensor {
  Tensor tensor;
};

// `what` names the argument in messages: "input 'x'". `wanted` is the element type that lists and numbers become, which
// have none of their own; undefined leaves that to numpy. Numbers may be rounded to a floating-point type; what would
// change otherwise (1.5 for an integer, 300 for a byte) is refused. bytes are elements of u8, or a text. An array keeps
// its type, and whoever takes the tensor checks it. Throws Error(invalid_argument) for what is no array of an element
// type that Tessera has.
Tensor tensor_from_python(nanobind::handle object, DType wanted, std::string_view what);
// The array's own memory, to be written to. Throws Error(invalid_argument) where it is read-only, not contiguous, not
// aligned, or of a type that has no elements in place.
Tensor writable_from_python(nanobind::handle array, std::string_view what);
// A numpy array, or None for no tensor. Throws Error(unsupported) where the type needs ml_dtypes, which is missing.
nanobind::object numpy_from_tensor(const Tensor& tensor);
// "numpy.ndarray of shape (2, 3) and type '>f4'", for messages.
std::string describe_python(nanobind::handle object);
// str(object); what cannot be encoded is escaped.
std::string text_of(nanobind::handle object);
// A name of an input or output. Throws Error(invalid_argument) for what is no str of UTF-8; `what` is "the name of an
// input", for the message.
std::string name_from_python(nanobind::handle name, std::string_view what);
// Text of a file, which may be no UTF-8; such bytes come back as they were.
nanobind::object python_text(std::string_view text);

nanobind::object numpy_module();
// numpy's or ml_dtypes' data type object. Throws Error(unsupported) where ml_dtypes is needed and missing.
nanobind::object numpy_dtype(DType dtype);

}  // namespace tessera::python
