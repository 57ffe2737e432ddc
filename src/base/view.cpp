#include "tessera/view.h"

#include "base/error.h"

namespace tessera {

Tensor view_of(DType type, Shape shape, const void* data, std::shared_ptr<const void> owner) {
  require(type != DType::string && type != DType::undefined, ErrorKind::invalid_argument,
          "a view of {}: only numbers can be viewed", name_of(type));
  // Tensor has one pointer for all storage; the contract of the tensors made here forbids writing to this one.
  return Tensor(type, std::move(shape), const_cast<void*>(data), std::move(owner));
}

}  // namespace tessera
