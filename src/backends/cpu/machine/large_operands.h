// The size in bytes from which an operand counts as large: too large to stay in a core's cache until it is read again.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// 4 MiB, unless a test says otherwise.
std::int64_t large_operand_bytes();

// For tests only: sets another limit for its lifetime, since the reference takes long for products of large operands.
// Not while other threads create kernels.
class ScopedLargeOperands {
 public:
  explicit ScopedLargeOperands(std::int64_t bytes);
  ~ScopedLargeOperands();
  ScopedLargeOperands(const ScopedLargeOperands&) = delete;
  ScopedLargeOperands& operator=(const ScopedLargeOperands&) = delete;

 private:
  std::int64_t before_;
};

}  // namespace tessera::backends::cpu
