#include "arrays.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/error.h"
#include "dlpack.h"
#include "element_types.h"
#include "gil.h"
#include "numpy_arrays.h"
#include "small_types.h"
#include "tessera/view.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

// A buffer of a Python object. It is released when the last tensor that uses it is destroyed.
class HeldBuffer {
 public:
  HeldBuffer() = default;
  ~HeldBuffer() {
    if (view_.obj == nullptr || !may_take_gil()) return;
    const WithGil lock;
    PyBuffer_Release(&view_);
  }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;

  // Returns false, without a Python error, if the object has no buffer, or one that cannot be described.
  bool get(PyObject* object, int flags = PyBUF_FULL_RO) {
    if (PyObject_GetBuffer(object, &view_, flags) == 0) return true;
    PyErr_Clear();
    view_.obj = nullptr;
    return false;
  }
  const Py_buffer& view() const { return view_; }
  Shape shape() const { return {view_.shape, view_.shape + view_.ndim}; }

 private:
  Py_buffer view_{};
};

bool is_aligned(const void* data, std::int64_t bytes) {
  const std::uintptr_t alignment = bytes >= 16 ? 8 : static_cast<std::uintptr_t>(std::max<std::int64_t>(bytes, 1));
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

// A tensor over the object's own memory, or nothing if that has to be copied first.
Tensor view_of_buffer(PyObject* object, DType as = DType::undefined, int flags = PyBUF_FULL_RO) {
  auto buffer = std::make_shared<HeldBuffer>();
  if (!buffer->get(object, flags)) return {};
  const Py_buffer& view = buffer->view();
  const DType dtype = as != DType::undefined   ? as
                      : view.format == nullptr ? DType::u8
                                               : dtype_of_format(view.format, static_cast<std::int64_t>(view.itemsize));
  if (dtype == DType::undefined || view.suboffsets != nullptr) return {};
  Shape shape = buffer->shape();
  if (element_count(shape) == 0) return Tensor(dtype, std::move(shape));
  if (PyBuffer_IsContiguous(&view, 'C') == 0 || !is_aligned(view.buf, view.itemsize)) return {};
  return view_of(dtype, std::move(shape), view.buf, buffer);
}

std::string string_of(PyObject* item, std::string_view what) {
  if (PyUnicode_Check(item)) {
    const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(item, "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) {
      PyErr_Clear();
      fail(ErrorKind::invalid_argument, "{} holds the text '{}', which is no Unicode: it has half of a surrogate pair",
           what, text_of(item));
    }
    return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
  }
  if (PyBytes_Check(item)) return {PyBytes_AsString(item), static_cast<std::size_t>(PyBytes_Size(item))};
  fail(ErrorKind::invalid_argument, "{} holds a {} among its elements, expected only str or bytes", what,
       text_of(nb::handle(item).type().attr("__name__")));
}

Shape shape_of(nb::handle array) {
  Shape shape;
  for (const nb::handle dimension : array.attr("shape")) shape.push_back(nb::cast<std::int64_t>(dimension));
  return shape;
}

Tensor strings_from(nb::handle array, std::string_view what) {
  Tensor tensor(DType::string, shape_of(array));
  std::string* out = tensor.mutable_data<std::string>();
  const nb::object items = array.attr("ravel")().attr("tolist")();
  for (const nb::handle item : items) *out++ = string_of(item.ptr(), what);
  return tensor;
}

// A copy of an array whose memory cannot be used as it is.
Tensor copy_of_array(nb::handle array, std::string_view what) {
  const nb::object dtype = array.attr("dtype");
  const char kind = text_of(dtype.attr("kind"))[0];
  const bool is_string = kind == 'O' || kind == 'U' || kind == 'S' || kind == 'T';
  if (is_string) return strings_from(array, what);
  const std::string name = text_of(dtype.attr("name"));
  const ElementType* type = element_type_of_name(name);
  require(type != nullptr, ErrorKind::invalid_argument, "{} has the element type {}, which no model can have", what,
          name);
  const nb::object numpy = numpy_module();
  if (type->buffer_format != nullptr) {
    const nb::object native = array.attr("astype")(dtype.attr("newbyteorder")("="), nb::arg("order") = "C",
                                                   nb::arg("subok") = false, nb::arg("copy") = true);
    return tensor_from_numpy(native);
  }
  const bool is_wide = bits_of(type->dtype) == 16;
  const nb::object plain = numpy.attr("asarray")(array);  // no subclass
  const Tensor stored = tensor_from_numpy(plain.attr("view")(numpy.attr(is_wide ? "uint16" : "uint8")));
  if (is_subbyte(type->dtype)) return packed(stored, type->dtype);
  return Tensor(type->dtype, stored.shape(), const_cast<void*>(stored.raw()), std::make_shared<Tensor>(stored));
}

bool is_array(nb::handle object) {
  static PyObject* const type = nb::object(numpy_module().attr("ndarray")).release().ptr();
  return PyObject_IsInstance(object.ptr(), type) == 1;
}

// PyTorch's views may be negated or conjugated, which DLPack cannot express. Returns a copy for such views, or else the
// object itself.
nb::object resolved_view(nb::handle object) {
  const bool pending = nb::hasattr(object, "resolve_neg") &&
                       (nb::cast<bool>(object.attr("is_neg")()) || nb::cast<bool>(object.attr("is_conj")()));
  return pending ? nb::object(object.attr("resolve_conj")().attr("resolve_neg")()) : nb::borrow(object);
}

// Converts lists and numbers to an array of the wanted type. Their values may change only by rounding to a
// floating-point type.
nb::object converted(nb::handle object, DType wanted, std::string_view what) {
  const nb::object numpy = numpy_module();
  const nb::object given = numpy.attr("asarray")(object);
  const char kind = text_of(given.attr("dtype").attr("kind"))[0];
  require(std::string_view("biufc").find(kind) != std::string_view::npos, ErrorKind::invalid_argument,
          "{} is a {} of which not all elements are numbers, expected {}", what, describe_python(object),
          name_of(wanted));
  nb::object result = numpy.attr("asarray")(object, nb::arg("dtype") = numpy_dtype(wanted));
  const bool may_round = is_float(wanted) && kind != 'c';
  require(may_round || nb::cast<bool>(numpy.attr("array_equal")(given, result)), ErrorKind::invalid_argument,
          "{} is a {} with numbers that {} does not have, as {}; convert them first, by numpy.round for example", what,
          describe_python(object), name_of(wanted), text_of(nb::repr(object)).substr(0, 60));
  return result;
}

// Converts the object to an array; one without an element type of its own gets the wanted one.
nb::object as_array(nb::handle object, DType wanted, std::string_view what) {
  try {
    const nb::object numpy = numpy_module();
    const bool has_type =
        nb::hasattr(object, "dtype") || nb::hasattr(object, "__array__") || PyObject_CheckBuffer(object.ptr()) != 0;
    if (has_type || wanted == DType::undefined) return numpy.attr("asarray")(object);
    if (wanted == DType::string) return numpy.attr("asarray")(object, nb::arg("dtype") = "O");
    return converted(object, wanted, what);
  } catch (const nb::python_error& error) {
    fail(ErrorKind::invalid_argument, "{} is a {}, of which no array can be made: {}", what, describe_python(object),
         text_of(error.value()));
  }
}

}  // namespace

nb::object numpy_module() {
  // Never released, because it must not be released after the interpreter has ended.
  static PyObject* const module = nb::module_::import_("numpy").release().ptr();
  return nb::borrow(module);
}

nb::object numpy_dtype(DType dtype) {
  const ElementType* type = element_type(dtype);
  require(type != nullptr, ErrorKind::invalid_argument, "there is no element type {}", name_of(dtype));
  const nb::object make = numpy_module().attr("dtype");
  if (type->numpy_name == nullptr) return make("O");
  if (type->buffer_format != nullptr) return make(type->numpy_name);
  try {
    return make(nb::module_::import_("ml_dtypes").attr(type->numpy_name));
  } catch (const nb::python_error&) {
    fail(ErrorKind::unsupported, "numpy has no element type {} by itself: install the package ml_dtypes",
         type->numpy_name);
  }
}

std::string describe_python(nb::handle object) {
  const std::string type = text_of(object.type().attr("__name__"));
  if (!is_array(object)) return type;
  return fmt::format("{} of shape {} and type '{}'", type, text_of(object.attr("shape")),
                     text_of(object.attr("dtype")));
}

std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

std::string name_from_python(nb::handle name, std::string_view what) {
  if (!PyUnicode_Check(name.ptr()))
    fail(ErrorKind::invalid_argument, "{} is a str, not a {}", what, describe_python(name));
  Py_ssize_t bytes = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &bytes);
  if (text != nullptr) return {text, static_cast<std::size_t>(bytes)};
  PyErr_Clear();
  fail(ErrorKind::invalid_argument, "{} cannot be '{}', which is no UTF-8", what, text_of(name));
}

nb::object python_text(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

Tensor tensor_from_python(nb::handle object, DType wanted, std::string_view what) {
  if (Tensor tensor = tensor_from_numpy(object); tensor.has_value()) return tensor;
  require(!object.is_none(), ErrorKind::invalid_argument, "{} is None, expected an array", what);
  const bool array = is_array(object);
  if (!array) {
    if (nb::isinstance<PyTensor>(object)) return nb::cast<const PyTensor&>(object).tensor;
    if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__"))
      return tensor_from_dlpack(resolved_view(object), what);
  }
  // bytes can also be text.
  const bool is_text = PyUnicode_Check(object.ptr()) || (PyBytes_Check(object.ptr()) && wanted == DType::string);
  if (!is_text && PyObject_CheckBuffer(object.ptr()) != 0) {
    if (Tensor tensor = view_of_buffer(object.ptr()); tensor.has_value()) return tensor;
  }
  return array ? copy_of_array(object, what) : [&] {
    const nb::object made = as_array(object, wanted, what);
    const Tensor tensor = view_of_buffer(made.ptr());
    return tensor.has_value() ? tensor : copy_of_array(made, what);
  }();
}

Tensor writable_from_python(nb::handle array, std::string_view what) {
  if (nb::isinstance<PyTensor>(array)) return nb::cast<const PyTensor&>(array).tensor;
  Tensor tensor;
  if (PyObject_CheckBuffer(array.ptr()) != 0) tensor = view_of_buffer(array.ptr(), DType::undefined, PyBUF_FULL);
  else if (nb::hasattr(array, "__dlpack__") && resolved_view(array).is(array)) tensor = tensor_from_dlpack(array, what);
  if (!tensor.has_value())
    fail(ErrorKind::invalid_argument,
         "{} is a {}; results can be written only to an array that is writable, C-contiguous and in native byte order",
         what, describe_python(array));
  return tensor;
}

nb::object numpy_from_tensor(const Tensor& tensor) {
  if (!tensor.has_value()) return nb::none();
  require(tensor.has_data() || tensor.elements() == 0, ErrorKind::unsupported,
          "there are no values to read: the device computes none");
  if (nb::object array = numpy_view(tensor); array.is_valid()) return array;
  const nb::object numpy = numpy_module();
  if (tensor.dtype() == DType::string) {
    nb::list items;
    for (const std::string& text : tensor.values<std::string>()) items.append(python_text(text));
    const nb::object flat = numpy.attr("empty")(items.size(), "O");
    flat[nb::slice(nb::none(), nb::none(), nb::none())] = items;
    nb::list shape;
    for (const std::int64_t dimension : tensor.shape()) shape.append(dimension);
    return flat.attr("reshape")(nb::tuple(shape));
  }
  static PyObject* const as_array = nb::object(numpy.attr("asarray")).release().ptr();
  const bool has_format = element_type(tensor.dtype())->buffer_format != nullptr;
  if (has_format) return nb::handle(as_array)(nb::cast(PyTensor{tensor}));
  const nb::object dtype = numpy_dtype(tensor.dtype());
  const bool small = is_subbyte(tensor.dtype());
  const DType stored = bits_of(tensor.dtype()) == 16 ? DType::u16 : DType::u8;
  const Tensor bits =
      small ? unpacked(tensor)
            : Tensor(stored, tensor.shape(), const_cast<void*>(tensor.raw()), std::make_shared<Tensor>(tensor));
  return nb::object(nb::handle(as_array)(nb::cast(PyTensor{bits}))).attr("view")(dtype);
}

}  // namespace tessera::python
