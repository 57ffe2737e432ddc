// A tensor that clients see in another shape than the model (Triton's `reshape`).
#pragma once

#include <string>

#include "tessera/tensor.h"

namespace tessera::serve {

// Shapes have no batch dimension, and −1 where a size is open: the open sizes of one are those of the other, in their
// order, and the sizes between two of them have the same product.
class TensorReshape {
 public:
  // Throws Error(invalid_argument) that names the tensor for shapes that cannot be reshaped one into the other.
  TensorReshape(Shape from, Shape to, const std::string& name);

  // The tensor, of the shape `from` behind the batch dimension if there is one, in the shape `to`. It views the same
  // elements. Throws Error(failed) for a tensor of another shape.
  Tensor apply(const Tensor& tensor, bool batched) const;

 private:
  Shape from_, to_;
};

}  // namespace tessera::serve
