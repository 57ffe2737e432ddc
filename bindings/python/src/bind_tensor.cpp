// tessera._core.Tensor: memory that Tessera and Python share.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "dlpack.h"
#include "element_types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

// The memory that a Py_buffer points to.
struct ExportedBuffer {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  try {
    const Tensor& tensor = nb::cast<const PyTensor&>(nb::handle(self)).tensor;
    const ElementType* type = element_type(tensor.dtype());
    require(type != nullptr && type->buffer_format != nullptr, ErrorKind::unsupported,
            "the buffer protocol has no element type {}", name_of(tensor.dtype()));
    auto exported = std::make_unique<ExportedBuffer>();
    exported->tensor = tensor;
    exported->shape.assign(tensor.shape().begin(), tensor.shape().end());
    exported->strides.assign(exported->shape.size(), bits_of(tensor.dtype()) / 8);
    for (std::size_t i = exported->shape.size(); i-- > 1;)
      exported->strides[i - 1] = exported->strides[i] * exported->shape[i];
    view->buf = const_cast<void*>(tensor.raw());
    view->len = static_cast<Py_ssize_t>(tensor.bytes());
    view->itemsize = bits_of(tensor.dtype()) / 8;
    view->readonly = 0;
    view->ndim = static_cast<int>(exported->shape.size());
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(type->buffer_format) : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? exported->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported.release();
    view->obj = self;
    Py_INCREF(self);
    return 0;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    view->obj = nullptr;
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) noexcept {
  delete static_cast<ExportedBuffer*>(view->internal);
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

nb::tuple shape_tuple(const Tensor& tensor) {
  nb::list shape;
  for (const std::int64_t dimension : tensor.shape()) shape.append(dimension);
  return nb::tuple(shape);
}

DType parse_dtype(const std::string& name) {
  const std::optional<DType> dtype = dtype_from_name(name);
  require(dtype && *dtype != DType::undefined, ErrorKind::invalid_argument, "there is no element type '{}'", name);
  return *dtype;
}

// A tensor of zeros, so that no old contents of memory show.
Tensor zeros(const std::string& dtype, const Shape& shape) {
  Tensor tensor(parse_dtype(dtype), shape);
  if (tensor.dtype() != DType::string) std::memset(tensor.mutable_raw(), 0, static_cast<std::size_t>(tensor.bytes()));
  return tensor;
}

// A tensor over memory at an address, which the caller keeps alive.
Tensor of_address(const std::string& dtype, const Shape& shape, std::uintptr_t address) {
  const DType type = parse_dtype(dtype);
  require(type != DType::string, ErrorKind::invalid_argument, "a tensor of strings cannot be given by its address");
  require(address != 0 || element_count(shape) == 0, ErrorKind::invalid_argument, "the address is 0");
  return {type, shape, reinterpret_cast<void*>(address), nullptr};
}

// A tensor of another element type over the memory of `from`, which is kept alive.
Tensor reinterpreted(const Tensor& from, const std::string& dtype) {
  const DType type = parse_dtype(dtype);
  require(bits_of(type) > 0 && bits_of(type) == bits_of(from.dtype()), ErrorKind::invalid_argument,
          "elements of {} are not as wide as those of {}", name_of(from.dtype()), name_of(type));
  return {type, from.shape(), const_cast<void*>(from.raw()), std::make_shared<Tensor>(from)};
}

void assign(PyTensor& self, nb::handle array) {
  const Tensor from = tensor_from_python(array, self.tensor.dtype(), "the array");
  require(from.dtype() == self.tensor.dtype() && from.shape() == self.tensor.shape(), ErrorKind::invalid_argument,
          "the array is {}{}, expected {}{}", name_of(from.dtype()), to_string(from.shape()),
          name_of(self.tensor.dtype()), to_string(self.tensor.shape()));
  if (from.dtype() != DType::string) {
    if (from.bytes() > 0) std::memmove(self.tensor.mutable_raw(), from.raw(), static_cast<std::size_t>(from.bytes()));
    return;
  }
  const std::span<const std::string> texts = from.values<std::string>();
  std::copy(texts.begin(), texts.end(), self.tensor.mutable_data<std::string>());
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<PyTensor>(module, "Tensor", nb::type_slots(tensor_slots),
                       "Memory that Tessera and Python share: an element type, a shape, and elements in row-major "
                       "order. Has the buffer protocol and DLPack.")
      .def_static(
          "of", [](nb::object array) { return PyTensor{tensor_from_python(array, DType::undefined, "the array")}; },
          "array"_a, "The array's memory where it is contiguous and aligned, else a copy.")
      .def_static(
          "zeros", [](const std::string& dtype, const Shape& shape) { return PyTensor{zeros(dtype, shape)}; },
          "dtype"_a, "shape"_a, "Memory of its own, aligned to 64 bytes.")
      .def_static(
          "of_address",
          [](const std::string& dtype, const Shape& shape, std::uintptr_t address) {
            return PyTensor{of_address(dtype, shape, address)};
          },
          "dtype"_a, "shape"_a, "address"_a, "Memory that the caller keeps alive.")
      .def_prop_ro("dtype", [](const PyTensor& self) { return std::string(name_of(self.tensor.dtype())); })
      .def_prop_ro("onnx_type", [](const PyTensor& self) { return static_cast<int>(self.tensor.dtype()); })
      .def_prop_ro("shape", [](const PyTensor& self) { return shape_tuple(self.tensor); })
      .def_prop_ro("nbytes", [](const PyTensor& self) { return self.tensor.bytes(); })
      .def_prop_ro("address", [](const PyTensor& self) { return reinterpret_cast<std::uintptr_t>(self.tensor.raw()); })
      .def(
          "numpy", [](const PyTensor& self) { return numpy_from_tensor(self.tensor); },
          "A numpy array of the same memory (strings and types of less than a byte are copied).")
      .def(
          "reinterpreted",
          [](const PyTensor& self, const std::string& dtype) { return PyTensor{reinterpreted(self.tensor, dtype)}; },
          "dtype"_a, "The same memory as elements of another type of equal width.")
      .def(
          "copy", [](const PyTensor& self) { return PyTensor{self.tensor.clone()}; }, "A deep copy.")
      .def("assign", &assign, "array"_a, "Copies the elements of an array of the same type and shape here.")
      .def("__dlpack_device__", [](const PyTensor&) { return std::pair(1, 0); })
      .def(
          "__dlpack__",
          [](const PyTensor& self, nb::object, std::optional<std::pair<int, int>> max_version, nb::object,
             std::optional<bool> copy) {
            return dlpack_from_tensor(copy.value_or(false) ? self.tensor.clone() : self.tensor,
                                      max_version && max_version->first >= 1);
          },
          nb::kw_only(), "stream"_a.none() = nb::none(), "max_version"_a = nb::none(),
          "dl_device"_a.none() = nb::none(), "copy"_a = nb::none())
      .def("__repr__", [](const PyTensor& self) {
        return "tessera.Tensor(" + std::string(name_of(self.tensor.dtype())) + to_string(self.tensor.shape()) + ")";
      });
}

}  // namespace tessera::python
