// Integer arithmetic that reports overflow as Error(over_budget) instead of wrapping.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace tessera::base {

inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_add_overflow(a, b, &result), ErrorKind::over_budget, "size overflow: {} + {}", a, b);
  return result;
}

inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_mul_overflow(a, b, &result), ErrorKind::over_budget, "size overflow: {} x {}", a, b);
  return result;
}

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}
inline std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return checked_multiply(ceil_divide(a, multiple), multiple);
}

}  // namespace tessera::base
