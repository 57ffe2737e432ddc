#include "dlpack.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "element_types.h"
#include "gil.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

constexpr std::int32_t kCpu = 1, kPinnedCpu = 3;
constexpr const char* kCapsule = "dltensor";
constexpr const char* kUsedCapsule = "used_dltensor";
constexpr const char* kVersionedCapsule = "dltensor_versioned";

struct DlTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlManagedVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  std::uint64_t flags;
  DlTensor tensor;
};

struct ManagedOwner {
  explicit ManagedOwner(DlManaged* managed) : managed(managed) {}
  ~ManagedOwner() {
    if (managed == nullptr || managed->deleter == nullptr || !may_take_gil()) return;
    const WithGil lock;
    managed->deleter(managed);
  }
  ManagedOwner(const ManagedOwner&) = delete;
  ManagedOwner& operator=(const ManagedOwner&) = delete;
  DlManaged* managed;
};

bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// The strides of DLPack count elements, not bytes.
Tensor row_major_copy(const DlTensor& tensor, DType dtype, const Shape& shape, const void* data) {
  std::vector<std::int64_t> strides_bytes(tensor.strides, tensor.strides + tensor.ndim);
  for (std::int64_t& stride : strides_bytes) stride *= bits_of(dtype) / 8;
  return strided_copy(dtype, shape, strides_bytes, data);
}

std::int32_t device_of(nb::handle object) {
  return nb::cast<std::int32_t>(nb::object(object.attr("__dlpack_device__")())[0]);
}

// Also throws Error(invalid_argument) if the object cannot tell its device: torch's tensors on the device "meta" have
// no memory.
nb::object capsule_of_cpu(nb::handle object, std::string_view what) {
  try {
    const std::int32_t type = device_of(object);
    require(
        type == kCpu || type == kPinnedCpu, ErrorKind::invalid_argument,
        "{} is not in the CPU's memory (its DLPack device has type {}); move it there first, with x.cpu() for example",
        what, type);
    return object.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    fail(ErrorKind::invalid_argument, "{} does not give its memory away: {}", what, text_of(error.value()));
  }
}

}  // namespace

Tensor tensor_from_dlpack(nb::handle object, std::string_view what) {
  const nb::object capsule = capsule_of_cpu(object, what);
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  if (managed == nullptr) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), kUsedCapsule);
  const auto owner = std::make_shared<ManagedOwner>(managed);
  const DlTensor& found = managed->tensor;
  const DType dtype = found.lanes == 1 ? dtype_of_dlpack(found.code, found.bits) : DType::undefined;
  require(dtype != DType::undefined, ErrorKind::invalid_argument,
          "{} has an element type that no model can have (DLPack type {}, {} bits, {} lanes)", what, found.code,
          found.bits, found.lanes);
  Shape shape(found.shape, found.shape + found.ndim);
  if (element_count(shape) == 0) return Tensor(dtype, std::move(shape));
  char* data = static_cast<char*>(found.data) + found.byte_offset;
  const auto item_bytes = static_cast<std::size_t>(bits_of(dtype) / 8);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % std::min<std::size_t>(item_bytes, 8) == 0;
  if (is_contiguous(found) && aligned) return Tensor(dtype, std::move(shape), data, owner);
  if (!is_contiguous(found)) return row_major_copy(found, dtype, shape, data);
  Tensor copy(dtype, std::move(shape));
  std::memcpy(copy.mutable_raw(), data, static_cast<std::size_t>(copy.bytes()));
  return copy;
}

namespace {

// The tensor that a capsule keeps, with the arrays that DLPack refers to.
template <typename Managed>
struct Exported {
  explicit Exported(const Tensor& given) : tensor(given), shape(given.shape()), strides(shape.size(), 1) {
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    const ElementType& type = *element_type(tensor.dtype());
    managed.tensor = {tensor.mutable_raw(),
                      kCpu,
                      0,
                      static_cast<std::int32_t>(shape.size()),
                      type.dlpack_code,
                      static_cast<std::uint8_t>(bits_of(tensor.dtype())),
                      1,
                      shape.data(),
                      strides.data(),
                      0};
    managed.context = this;
    managed.deleter = [](Managed* self) { delete static_cast<Exported*>(self->context); };
  }
  Tensor tensor;
  Shape shape, strides;
  Managed managed{};
};

template <typename Managed>
nb::object capsule_of(const Tensor& tensor, const char* name, PyCapsule_Destructor destroy) {
  auto exported = std::make_unique<Exported<Managed>>(tensor);
  if constexpr (std::is_same_v<Managed, DlManagedVersioned>) exported->managed.major = 1;
  PyObject* capsule = PyCapsule_New(&exported->managed, name, destroy);
  if (capsule == nullptr) throw nb::python_error();
  (void)exported.release();  // now owned by the capsule, or by whoever takes it out
  return nb::steal(capsule);
}

}  // namespace

nb::object dlpack_from_tensor(const Tensor& tensor, bool versioned) {
  require(tensor.has_value() && element_type(tensor.dtype())->dlpack_code != kNoDlpack, ErrorKind::unsupported,
          "DLPack has no element type {}", name_of(tensor.dtype()));
  // A capsule whose tensor was taken out has another name.
  if (versioned)
    return capsule_of<DlManagedVersioned>(tensor, kVersionedCapsule, [](PyObject* capsule) {
      if (PyCapsule_IsValid(capsule, kVersionedCapsule) == 0) return;
      auto* managed = static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(capsule, kVersionedCapsule));
      managed->deleter(managed);
    });
  return capsule_of<DlManaged>(tensor, kCapsule, [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kCapsule) == 0) return;
    auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, kCapsule));
    managed->deleter(managed);
  });
}

}  // namespace tessera::python
