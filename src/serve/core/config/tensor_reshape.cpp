#include "serve/core/config/tensor_reshape.h"

#include <vector>

#include "base/error.h"

namespace tessera::serve {
namespace {

// The products of the sizes before, between and behind the open ones. A product that is too large for the type is of no
// tensor that there could be.
std::vector<double> products_between_open(const Shape& shape) {
  std::vector<double> products{1};
  for (const std::int64_t size : shape) {
    if (size < 0) products.push_back(1);
    else products.back() *= static_cast<double>(size);
  }
  return products;
}

}  // namespace

TensorReshape::TensorReshape(Shape from, Shape to, const std::string& name)
    : from_(std::move(from)), to_(std::move(to)) {
  require(products_between_open(from_) == products_between_open(to_), ErrorKind::invalid_argument,
          "'{}' of the shape {} cannot be reshaped to {}: both must have equally many sizes of −1, and between them "
          "equally many elements",
          name, to_string(from_), to_string(to_));
}

Tensor TensorReshape::apply(const Tensor& tensor, bool batched) const {
  const Shape& shape = tensor.shape();
  const std::size_t first = batched ? 1 : 0;
  bool fits = shape.size() == from_.size() + first;
  Shape open, wanted;
  for (std::size_t i = 0; fits && i < from_.size(); ++i) {
    if (from_[i] < 0) open.push_back(shape[first + i]);
    else fits = shape[first + i] == from_[i];
  }
  require(fits, ErrorKind::failed, "a tensor has the shape {}, expected {}{}", to_string(shape),
          batched ? "the batch and " : "", to_string(from_));
  if (batched) wanted.push_back(shape[0]);
  auto next = open.begin();
  for (const std::int64_t size : to_) wanted.push_back(size < 0 ? *next++ : size);
  return tensor.reshaped(std::move(wanted));
}

}  // namespace tessera::serve
