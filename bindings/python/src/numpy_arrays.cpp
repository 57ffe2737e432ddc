#include "numpy_arrays.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "gil.h"
#include "tessera/view.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

// PyArrayObject_fields and the head of PyArray_Descr of numpy/ndarraytypes.h.
struct ArrayObject {
  PyObject object;
  void* data;
  int rank;
  Py_intptr_t* dims;
  Py_intptr_t* strides;
  PyObject* base;
  PyObject* descriptor;
  int flags;
};
struct Descriptor {
  PyObject object;
  PyTypeObject* scalar_type;
  char kind, type, byte_order, former_flags;
  int type_number;
};
constexpr int kContiguous = 0x1, kAligned = 0x100, kWriteable = 0x400;
constexpr int kRowMajorOrder = 0;  // NPY_CORDER

// By numpy's type number (enum NPY_TYPES), on Linux with 64 bits.
constexpr std::array<std::pair<int, DType>, 16> kTypes{{{11, DType::f32},
                                                        {12, DType::f64},
                                                        {7, DType::i64},
                                                        {9, DType::i64},
                                                        {5, DType::i32},
                                                        {0, DType::boolean},
                                                        {2, DType::u8},
                                                        {1, DType::i8},
                                                        {23, DType::f16},
                                                        {3, DType::i16},
                                                        {4, DType::u16},
                                                        {6, DType::u32},
                                                        {8, DType::u64},
                                                        {10, DType::u64},
                                                        {14, DType::c64},
                                                        {15, DType::c128}}};
static_assert(sizeof(long) == 8 && sizeof(long long) == 8);

DType dtype_of_number(int number) {
  for (const auto& [each, dtype] : kTypes) {
    if (each == number) return dtype;
  }
  return DType::undefined;
}

int number_of_dtype(DType dtype) {
  for (const auto& [number, each] : kTypes) {
    if (each == dtype) return number;
  }
  return -1;
}

// The functions that are used; null if numpy's interface is of an unknown version.
struct NumpyInterface {
  PyTypeObject* array_type = nullptr;
  PyObject* (*descriptor_of_type)(int) = nullptr;
  PyObject* (*new_copy)(PyObject*, int order) = nullptr;
  PyObject* (*new_from_descriptor)(PyTypeObject*, PyObject*, int, const Py_intptr_t*, const Py_intptr_t*, void*, int,
                                   PyObject*) = nullptr;
  int (*set_base)(PyObject*, PyObject*) = nullptr;
};

NumpyInterface find_interface() {
  nb::object found;
  for (const char* name : {"numpy._core.multiarray", "numpy.core.multiarray"}) {
    try {
      found = nb::module_::import_(name).attr("_ARRAY_API");
      break;
    } catch (const nb::python_error&) {
    }
  }
  if (!found.is_valid()) return {};
  void** const table = static_cast<void**>(PyCapsule_GetPointer(found.ptr(), nullptr));
  if (table == nullptr) {
    PyErr_Clear();
    return {};
  }
  const unsigned binary_version = reinterpret_cast<unsigned (*)()>(table[0])();
  if (binary_version != 0x01000009 && binary_version != 0x02000000) return {};
  NumpyInterface numpy;
  numpy.array_type = static_cast<PyTypeObject*>(table[2]);
  numpy.descriptor_of_type = reinterpret_cast<decltype(numpy.descriptor_of_type)>(table[45]);
  numpy.new_copy = reinterpret_cast<decltype(numpy.new_copy)>(table[85]);
  numpy.new_from_descriptor = reinterpret_cast<decltype(numpy.new_from_descriptor)>(table[94]);
  numpy.set_base = reinterpret_cast<decltype(numpy.set_base)>(table[282]);
  return numpy;
}

const NumpyInterface& interface() {
  static const NumpyInterface found = find_interface();
  return found;
}

// A C-contiguous, aligned copy of the array. numpy copies along the strides in blocks that fit the caches.
nb::object contiguous_copy(nb::handle array) {
  nb::object copy = nb::steal(interface().new_copy(array.ptr(), kRowMajorOrder));
  if (!copy.is_valid()) throw nb::python_error();
  return copy;
}

}  // namespace

Tensor tensor_from_numpy(nb::handle object) {
  if (Py_TYPE(object.ptr()) != interface().array_type) return {};
  const auto* const array = reinterpret_cast<const ArrayObject*>(object.ptr());
  const auto* const descriptor = reinterpret_cast<const Descriptor*>(array->descriptor);
  constexpr int kWanted = kContiguous | kAligned;
  if (descriptor->byte_order == '>') return {};
  const DType dtype = dtype_of_number(descriptor->type_number);
  if (dtype == DType::undefined) return {};
  if ((array->flags & kWanted) != kWanted) return tensor_from_numpy(contiguous_copy(object));
  Shape shape(array->dims, array->dims + array->rank);
  for (const std::int64_t dimension : shape) {
    if (dimension == 0) return Tensor(dtype, std::move(shape));
  }
  std::shared_ptr<const void> owner(object.inc_ref().ptr(), [](const void* held) {
    if (!may_take_gil()) return;
    const WithGil lock;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(held)));
  });
  return view_of(dtype, std::move(shape), array->data, std::move(owner));
}

Tensor strided_copy(DType dtype, const Shape& shape, std::span<const std::int64_t> strides_bytes, const void* data) {
  const NumpyInterface& numpy = interface();
  // numpy does not name all types, but has others of the same width.
  const int bytes = bits_of(dtype) / 8;
  const DType stored = number_of_dtype(dtype) >= 0 ? dtype : bytes == 1 ? DType::u8 : DType::u16;
  require(numpy.array_type != nullptr, ErrorKind::unsupported,
          "this version of numpy does not copy memory with strides; make the array contiguous first");
  const std::vector<Py_intptr_t> strides(strides_bytes.begin(), strides_bytes.end());
  const nb::object view = nb::steal(numpy.new_from_descriptor(
      numpy.array_type, numpy.descriptor_of_type(number_of_dtype(stored)), static_cast<int>(shape.size()), shape.data(),
      strides.data(), const_cast<void*>(data), 0, nullptr));
  if (!view.is_valid()) throw nb::python_error();
  const Tensor copy = tensor_from_numpy(contiguous_copy(view));
  return stored == dtype ? copy : Tensor(dtype, shape, const_cast<void*>(copy.raw()), std::make_shared<Tensor>(copy));
}

nb::object numpy_view(const Tensor& tensor) {
  const NumpyInterface& numpy = interface();
  const int number = number_of_dtype(tensor.dtype());
  if (numpy.array_type == nullptr || number < 0) return {};
  nb::object keeper = nb::cast(PyTensor{tensor});
  // Takes over the reference to the descriptor.
  nb::object array = nb::steal(numpy.new_from_descriptor(
      numpy.array_type, numpy.descriptor_of_type(number), static_cast<int>(tensor.rank()), tensor.shape().data(),
      nullptr, const_cast<void*>(tensor.raw()), kContiguous | kAligned | kWriteable, nullptr));
  if (!array.is_valid() || numpy.set_base(array.ptr(), keeper.release().ptr()) != 0) throw nb::python_error();
  return array;
}

}  // namespace tessera::python
