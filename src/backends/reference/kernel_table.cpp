#include "backends/reference/kernels/kernels.h"
#include "backends/reference/reference_device.h"

namespace tessera::backends {

using namespace reference;

std::span<const KernelEntry> reference_kernel_table() {
  static const KernelEntry table[] = {
      // element_wise_unary
      {.op = "Relu", .name = "reference_relu", .function = relu},
      {.op = "Sigmoid", .name = "reference_sigmoid", .function = sigmoid},
      // reshape
      {.op = "Reshape", .name = "reference_copy", .function = copy_bytes},
      // softmax
      {.op = "Softmax", .name = "reference_softmax", .function = softmax},
  };
  return table;
}

}  // namespace tessera::backends
