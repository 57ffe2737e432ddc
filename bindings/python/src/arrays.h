// Converts between Python's arrays and tensors.
//
// To Tessera: arrays that are C-contiguous, aligned and in native byte order are used without a copy, through the
// buffer protocol or DLPack, and kept alive by the tensor; they must not change while the tensor lives. Everything else
// is copied once: other strides, other byte orders, element types of less than a byte (which Tessera packs), strings,
// and objects that numpy.asarray has to convert to an array.
//
// To Python: an array shares the tensor's memory and keeps it alive, except for strings and element types of less than
// a byte.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "tessera/tensor.h"

namespace tessera::python {

// A tensor that Python owns. It supports the buffer protocol and DLPack.
struct PyTensor {
  Tensor tensor;
};

// `what` names the argument in messages, such as "input 'x'". `wanted` is the element type for lists and numbers, which
// have none of their own; if undefined, numpy chooses. Numbers may be rounded to a floating-point type; other changes
// of value (1.5 for an integer, 300 for a byte) are refused. bytes are elements of u8, or text. An array keeps its
// type, which the receiver of the tensor checks. Throws Error(invalid_argument) for objects that are no arrays of an
// element type that Tessera has.
Tensor tensor_from_python(nanobind::handle object, DType wanted, std::string_view what);
// A tensor over the array's own memory, for writing. Throws Error(invalid_argument) if the array is read-only, not
// contiguous, not aligned, or of a type that is stored differently.
Tensor writable_from_python(nanobind::handle array, std::string_view what);
// A numpy array, or None for no tensor. Throws Error(unsupported) if the type needs ml_dtypes, which is not installed.
nanobind::object numpy_from_tensor(const Tensor& tensor);
// "numpy.ndarray of shape (2, 3) and type '>f4'", for messages.
std::string describe_python(nanobind::handle object);
// str(object), with characters that cannot be encoded escaped.
std::string text_of(nanobind::handle object);
// The name of an input or output. Throws Error(invalid_argument) unless it is a str that UTF-8 can encode; `what` is
// "the name of an input", for the message.
std::string name_from_python(nanobind::handle name, std::string_view what);
// Text from a file, which may be invalid UTF-8; invalid bytes survive a round trip.
nanobind::object python_text(std::string_view text);

nanobind::object numpy_module();
// numpy's or ml_dtypes' data type object. Throws Error(unsupported) if ml_dtypes is needed and not installed.
nanobind::object numpy_dtype(DType dtype);

}  // namespace tessera::python
