#include "backends/cpu/element_wise/look_up_bytes.h"

#include "backends/cpu/machine/simd.h"

namespace tessera::backends::cpu {

void look_up_bytes_scalar(const std::uint8_t* x, std::uint8_t* y, std::int64_t count, const std::uint8_t* table) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = table[x[i]];
}

LookUpBytes look_up_bytes() {
#if defined(__x86_64__)
  if (active_vbmi()) return look_up_bytes_vbmi;
#endif
  return look_up_bytes_scalar;
}

}  // namespace tessera::backends::cpu
