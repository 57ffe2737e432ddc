#include "backends/cpu/machine/large_operands.h"

#include <atomic>

namespace tessera::backends::cpu {
namespace {

std::atomic<std::int64_t>& limit() {
  static std::atomic<std::int64_t> bytes = 4 << 20;
  return bytes;
}

}  // namespace

std::int64_t large_operand_bytes() {
  return limit().load(std::memory_order_relaxed);
}

ScopedLargeOperands::ScopedLargeOperands(std::int64_t bytes) : before_(limit().exchange(bytes)) {}

ScopedLargeOperands::~ScopedLargeOperands() {
  limit() = before_;
}

}  // namespace tessera::backends::cpu
