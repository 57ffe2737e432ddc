#include <algorithm>
#include <cstring>

#include "backends/reference/kernels/kernels.h"

namespace tessera::backends::reference {

void copy_bytes(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.output(0);
  if (input.shares_storage_with(output)) return;
  if (input.dtype() == DType::string) std::copy_n(input.data<std::string>(), input.elements(), output.mutable_data<std::string>());
  else if (input.bytes() > 0) std::memcpy(output.mutable_raw(), input.raw(), static_cast<std::size_t>(input.bytes()));
}

}  // namespace tessera::backends::reference
