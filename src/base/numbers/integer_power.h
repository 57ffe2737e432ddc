// Powers of integers, as ONNX's Pow and its kernels compute them.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace tessera::base {

// x ^ y by squaring, wrapping. A negative power is a fraction: 1 / x ^ -y truncated towards zero. Throws Error(failed)
// for a negative power of 0.
inline std::int64_t integer_power(std::int64_t x, std::int64_t y) {
  if (y < 0) {
    require(x != 0, ErrorKind::failed, "0 to the power of {}", y);
    if (x == 1 || x == -1) return y % 2 == 0 ? 1 : x;
    return 0;
  }
  std::uint64_t base = static_cast<std::uint64_t>(x), result = 1;
  for (; y > 0; y >>= 1, base *= base) {
    if ((y & 1) != 0) result *= base;
  }
  return static_cast<std::int64_t>(result);
}

}  // namespace tessera::base
