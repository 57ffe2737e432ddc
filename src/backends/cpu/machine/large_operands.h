// From how many bytes on an operand is large: it leaves a core's cache before it is read again.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// 4 MiB, unless a test says otherwise.
std::int64_t large_operand_bytes();

// Tests only: another limit for its lifetime, since products of large operands take the reference long. Not while other
// threads create kernels.
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
