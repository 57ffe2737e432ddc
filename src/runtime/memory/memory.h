// Memory of the runtime: every byte in use charged to a session and a purpose, under the session's limit, and blocks
// that are used again instead of going back to the system (a first touch of fresh memory costs more than many kernels).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "tessera/tensor.h"

namespace tessera::runtime {

// staging: pinned host memory by way of which other host memory is copied to and from a device.
enum class Purpose : std::uint8_t { weights, packed_weights, variables, plans, arena, results, staging };
inline constexpr int kPurposes = 7;

// Counts bytes by purpose and refuses what would pass the limit. Thread-safe.
class MemoryAccount {
 public:
  // 0: no limit. `device`: the name of the device whose memory is counted, for errors; empty for host memory.
  explicit MemoryAccount(std::int64_t limit_bytes = 0, std::string device = {})
      : limit_(limit_bytes), device_(std::move(device)) {}
  // Throws Error(over_budget) naming the request, the purpose and what is in use.
  // `with_process`: this process's job, if it has one, is charged too; it counts host memory alone, so that an account
  // of a device never charges it.
  void charge(Purpose purpose, std::int64_t bytes, bool with_process = true);
  void release(Purpose purpose, std::int64_t bytes, bool with_process = true);
  std::int64_t used(Purpose purpose) const {
    return used_[static_cast<std::size_t>(purpose)].load(std::memory_order_relaxed);
  }
  std::int64_t limit() const { return limit_; }
  std::int64_t total() const { return total_.load(std::memory_order_relaxed); }

 private:
  const std::int64_t limit_;
  const std::string device_;
  std::array<std::atomic<std::int64_t>, kPurposes> used_{};
  std::atomic<std::int64_t> total_{0};
};

// Bytes charged to an account for as long as this lives.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(std::shared_ptr<MemoryAccount> account, Purpose purpose, std::int64_t bytes);
  ~MemoryCharge();
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;

 private:
  std::shared_ptr<MemoryAccount> account_;
  Purpose purpose_ = Purpose::weights;
  std::int64_t bytes_ = 0;
};

// Where a pool has its blocks from. Thread-safe; outlives the pool.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // Never null. Throws Error(over_budget).
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  virtual void free(std::byte* data, std::int64_t bytes) noexcept = 0;
};

// Blocks of at least the size asked for, 64-byte aligned, on huge pages where large. A block returns to the pool when
// its last owner lets go. In use and idle together, a pool holds no more than was in use at once lately (plus a small
// slack), so changing sizes do not pile up; an idle pool empties itself after a while (see IdleTrimmer). Thread-safe.
class BlockPool {
 public:
  // `spare_ratio`: a block of up to so many times the request may serve it. `slack_bytes`: kept beyond what was in use.
  // `source`: null for memory of the host.
  BlockPool(double spare_ratio, std::int64_t slack_bytes, BlockSource* source = nullptr);
  // A block charged to the account until it is let go; `preferred` if that is idle and large enough, so that who comes
  // again finds their data in cache. `with_process`: see MemoryAccount::charge. Throws Error(over_budget).
  std::shared_ptr<std::byte> take(std::int64_t bytes, std::shared_ptr<MemoryAccount> account, Purpose purpose,
                                  const std::byte* preferred = nullptr, bool with_process = true);
  // Keeps so many bytes more (fewer where negative) ready however long nothing is used: a block of them is touched now,
  // and from then on what is idle and in use together does not fall below the sum of all such calls unless trim() is
  // called. Of a pool of host memory. Throws Error(over_budget).
  void keep_ready(std::int64_t bytes);
  // Gives idle blocks back to the system.
  void trim();
  // Ends a period: what was in use at once in it and in the period before limits what is kept. Returns the bytes freed.
  std::int64_t end_period();
  std::int64_t idle_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A fresh block of the system's, 64-byte aligned, on huge pages where large; uncharged, and given back when its last
// owner lets go. Throws Error(over_budget) when there is none.
std::shared_ptr<std::byte[]> system_block(std::int64_t bytes);

// The pools of the process: all sessions share them, so ten sessions that run two at a time hold two arenas.
BlockPool& arena_blocks();
BlockPool& result_blocks();

// Gives the idle memory of the process back to the system now.
void trim_process_memory();

// Tensors that outlive a step, charged as results or for another purpose.
class ResultAllocator final : public backends::TensorAllocator {
 public:
  explicit ResultAllocator(std::shared_ptr<MemoryAccount> account, Purpose purpose = Purpose::results)
      : account_(std::move(account)), purpose_(purpose) {}
  Tensor allocate(DType type, Shape shape) override;
  Tensor with_characters(Tensor strings) override;
  void charge(std::int64_t bytes) override { account_->charge(purpose_, bytes); }
  void release(std::int64_t bytes) override { account_->release(purpose_, bytes); }

 private:
  std::shared_ptr<MemoryAccount> account_;
  Purpose purpose_;
};

}  // namespace tessera::runtime
