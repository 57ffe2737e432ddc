// A kernel over images that computes any rows ("lines") of its result, with operands in tensors or in ring buffers. The
// stages of a chain of convolutions (convolutions/conv_chain.cpp) are such kernels.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

class LineKernel : public Kernel {
 public:
  // Computes lines [first, last) of the result y; z is the addend, or has no data. These lines must be contiguous in y
  // and in z, and, if the kernel reads single pixels (1 × 1, stride 1), in x. Elements have the types of the layer's
  // data, addend and result.
  virtual void run_lines(const ConstByteLines& x, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                         std::int64_t last) const = 0;
};

}  // namespace tessera::backends::cpu
