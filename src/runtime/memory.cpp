#include "runtime/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"

namespace tessera::runtime {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Idle bytes kept for the next run. Twice what one run holds at once is enough; beyond that memory would only grow.
constexpr std::int64_t kIdleLimit = std::int64_t{1} << 30;

constexpr const char* kPurposeNames[kPurposes] = {"weights", "packed weights", "variables", "the arena", "results"};

// Sizes are rounded so that slightly different requests share blocks: to 1/8 of the power of two below.
std::int64_t size_class(std::int64_t bytes) {
  std::int64_t step = 64;
  while (step * 16 < bytes) step *= 2;
  return base::round_up(bytes > 0 ? bytes : 1, step);
}

std::byte* allocate_block(std::int64_t bytes) {
  const std::int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  void* data = std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(base::round_up(bytes, alignment)));
  require(data != nullptr, ErrorKind::over_budget, "the system has no {} of memory", base::format_bytes(bytes));
  if (bytes >= kHugePage) madvise(data, static_cast<std::size_t>(base::round_up(bytes, alignment)), MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace

void MemoryAccount::charge(Purpose purpose, std::int64_t bytes) {
  const std::int64_t before = total_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_ > 0 && before + bytes > limit_) {
    total_.fetch_sub(bytes, std::memory_order_relaxed);
    fail(ErrorKind::over_budget, "{} for {} do not fit: {} of the limit of {} are in use", base::format_bytes(bytes), kPurposeNames[static_cast<int>(purpose)],
         base::format_bytes(before), base::format_bytes(limit_));
  }
  used_[static_cast<std::size_t>(purpose)].fetch_add(bytes, std::memory_order_relaxed);
}

void MemoryAccount::release(Purpose purpose, std::int64_t bytes) {
  used_[static_cast<std::size_t>(purpose)].fetch_sub(bytes, std::memory_order_relaxed);
  total_.fetch_sub(bytes, std::memory_order_relaxed);
}

struct BlockPool::State {
  std::shared_ptr<MemoryAccount> account;
  Purpose purpose;
  std::mutex mutex;
  std::multimap<std::int64_t, std::byte*> idle;
  std::int64_t idle_bytes = 0;

  ~State() { drop_idle(); }

  void drop_idle() {
    std::multimap<std::int64_t, std::byte*> dropped;
    {
      std::lock_guard lock(mutex);
      dropped.swap(idle);
      idle_bytes = 0;
    }
    for (const auto& [bytes, data] : dropped) free_block(data, bytes);
  }

  void free_block(std::byte* data, std::int64_t bytes) {
    std::free(data);
    account->release(purpose, bytes);
  }

  void give_back(std::byte* data, std::int64_t bytes) {
    {
      std::lock_guard lock(mutex);
      if (idle_bytes + bytes <= kIdleLimit) {
        idle.emplace(bytes, data);
        idle_bytes += bytes;
        return;
      }
    }
    free_block(data, bytes);
  }

  std::byte* take_idle(std::int64_t bytes) {
    std::lock_guard lock(mutex);
    const auto found = idle.find(bytes);
    if (found == idle.end()) return nullptr;
    std::byte* data = found->second;
    idle.erase(found);
    idle_bytes -= bytes;
    return data;
  }
};

BlockPool::BlockPool(std::shared_ptr<MemoryAccount> account, Purpose purpose) : state_(std::make_shared<State>()) {
  state_->account = std::move(account);
  state_->purpose = purpose;
}

std::shared_ptr<std::byte> BlockPool::take(std::int64_t bytes) {
  const std::int64_t size = size_class(bytes);
  std::byte* data = state_->take_idle(size);
  if (data == nullptr) {
    state_->account->charge(state_->purpose, size);
    try {
      data = allocate_block(size);
    } catch (...) {
      state_->account->release(state_->purpose, size);
      throw;
    }
  }
  return {data, [state = state_, size](std::byte* block) { state->give_back(block, size); }};
}

Tensor BlockPool::take_tensor(DType type, const Shape& shape) {
  if (type == DType::string) return Tensor(type, shape);
  std::shared_ptr<std::byte> block = take(byte_count(type, shape));
  void* data = block.get();
  return Tensor(type, shape, data, std::move(block));
}

void BlockPool::trim() { state_->drop_idle(); }

}  // namespace tessera::runtime
