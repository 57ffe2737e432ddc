// Memory of a session: every byte charged to a purpose, under one limit, and blocks that are used again instead of going
// back to the system (a first touch of fresh memory costs more than many kernels).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tessera/tensor.h"

namespace tessera::runtime {

enum class Purpose : std::uint8_t { weights, packed_weights, variables, arena, results };
inline constexpr int kPurposes = 5;

// Counts bytes by purpose and refuses what would pass the limit. Thread-safe.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::int64_t limit_bytes = 0) : limit_(limit_bytes) {}  // 0: no limit
  // Throws Error(over_budget) naming the request, the purpose and what is in use.
  void charge(Purpose purpose, std::int64_t bytes);
  void release(Purpose purpose, std::int64_t bytes);
  std::int64_t used(Purpose purpose) const { return used_[static_cast<std::size_t>(purpose)].load(std::memory_order_relaxed); }
  std::int64_t total() const { return total_.load(std::memory_order_relaxed); }

 private:
  const std::int64_t limit_;
  std::array<std::atomic<std::int64_t>, kPurposes> used_{};
  std::atomic<std::int64_t> total_{0};
};

// Blocks of at least the size asked for, 64-byte aligned, on huge pages where large. A block returns to the pool when its
// last owner lets go, and to the system on trim() or beyond the pool's cap. The pool may die before its blocks. Thread-safe.
class BlockPool {
 public:
  BlockPool(std::shared_ptr<MemoryAccount> account, Purpose purpose);
  std::shared_ptr<std::byte> take(std::int64_t bytes);
  // A tensor in a block of the pool (strings get storage of their own).
  Tensor take_tensor(DType type, const Shape& shape);
  // Gives idle blocks back to the system.
  void trim();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::runtime
