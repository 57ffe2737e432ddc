// A kernel over pictures that computes any lines of its result, from lines that lie in tensors or in rings: what the
// stages of a chain of convolutions (convolutions/conv_chain.cpp) run on.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

class LineKernel : public Kernel {
 public:
  // Lines [first, last) of the result, which lie side by side in y, and in z where that has data: what is added. So do,
  // where windows are the pixels themselves, the same lines of x. Elements are of the types that the layer's data,
  // addend and result have.
  virtual void run_lines(const ConstByteLines& x, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                         std::int64_t last) const = 0;
};

}  // namespace tessera::backends::cpu
