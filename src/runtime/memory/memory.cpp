#include "runtime/memory/memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "base/numbers/units.h"
#include "base/poison.h"
#include "lease/attachment.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/memory/idle_trimmer.h"

namespace tessera::runtime {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// From here on a block is a mapping of its own: the C library would keep a freed one for itself.
constexpr std::int64_t kOwnMapping = std::int64_t{1} << 20;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;  // so that sizes can be rounded up
// A result up to this size does not come from a pool; it is charged with what surrounds its bytes (a value, its shape,
// its owner), because there may be millions of them in a sequence.
constexpr std::int64_t kSmallResultBytes = 1024, kAroundResultBytes = 256;

constexpr const char* kPurposeNames[kPurposes] = {"weights",   "packed weights", "variables", "plans",
                                                  "the arena", "results",        "staging"};

// Sizes are rounded so that slightly different requests share blocks: to 1/8 of the power of two below.
std::int64_t size_class(std::int64_t bytes) {
  if (bytes > kMostBytes) fail(ErrorKind::over_budget, "cannot allocate {}", base::format_bytes(bytes));
  std::int64_t step = 64;
  while (step < base::ceil_divide(bytes, 16)) step *= 2;
  const std::int64_t size = base::round_up(bytes > 0 ? bytes : 1, step);
  return size >= kOwnMapping ? base::round_up(size, size >= kHugePage ? kHugePage : 4096) : size;
}

// A mapping aligned to huge pages: one page more is mapped, and what lies around the block is given back.
void* map_on_huge_pages(std::size_t size) {
  const std::size_t page = static_cast<std::size_t>(kHugePage);
  void* mapped = mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(mapped);
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(mapped) % page) % page;
  if (before > 0) munmap(start, before);
  if (page - before > 0) munmap(start + before + size, page - before);
  madvise(start + before, size, MADV_HUGEPAGE);
  return start + before;
}

std::byte* allocate_block(std::int64_t bytes) {
  const std::size_t size = static_cast<std::size_t>(bytes);
  void* data = nullptr;
  if (bytes >= kHugePage) {
    data = map_on_huge_pages(size);
  } else if (bytes >= kOwnMapping) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) data = nullptr;
  } else {
    data = std::aligned_alloc(64, size);
  }
  if (data == nullptr) fail(ErrorKind::over_budget, "the system has no {} of memory", base::format_bytes(bytes));
  return static_cast<std::byte*>(data);
}

void free_block(std::byte* data, std::int64_t bytes) {
  if (bytes >= kOwnMapping) munmap(data, static_cast<std::size_t>(bytes));
  else std::free(data);
}

}  // namespace

void MemoryAccount::charge(Purpose purpose, std::int64_t bytes, bool with_process) {
  const std::int64_t before = total_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_ > 0 && bytes > limit_ - before) {
    total_.fetch_sub(bytes, std::memory_order_relaxed);
    const std::string where = device_.empty() ? "" : fmt::format(" in the memory of device '{}'", device_);
    fail(ErrorKind::over_budget, "{} for {} do not fit{}: {} of the limit of {} are in use", base::format_bytes(bytes),
         kPurposeNames[static_cast<int>(purpose)], where, base::format_bytes(before), base::format_bytes(limit_));
  }
  used_[static_cast<std::size_t>(purpose)].fetch_add(bytes, std::memory_order_relaxed);
  lease::Attachment* const attachment = with_process && device_.empty() ? lease::Attachment::of_process() : nullptr;
  if (attachment == nullptr) return;
  try {
    attachment->charge(bytes, kPurposeNames[static_cast<int>(purpose)]);
  } catch (...) {
    used_[static_cast<std::size_t>(purpose)].fetch_sub(bytes, std::memory_order_relaxed);
    total_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

void MemoryAccount::release(Purpose purpose, std::int64_t bytes, bool with_process) {
  lease::Attachment* const attachment = with_process && device_.empty() ? lease::Attachment::of_process() : nullptr;
  if (attachment != nullptr) attachment->release(bytes);
  used_[static_cast<std::size_t>(purpose)].fetch_sub(bytes, std::memory_order_relaxed);
  total_.fetch_sub(bytes, std::memory_order_relaxed);
}

MemoryCharge::MemoryCharge(std::shared_ptr<MemoryAccount> account, Purpose purpose, std::int64_t bytes)
    : purpose_(purpose), bytes_(bytes) {
  account->charge(purpose, bytes);
  account_ = std::move(account);
}

MemoryCharge::~MemoryCharge() {
  if (account_ != nullptr) account_->release(purpose_, bytes_);
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : account_(std::move(other.account_)), purpose_(other.purpose_), bytes_(other.bytes_) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  std::swap(account_, other.account_);
  std::swap(purpose_, other.purpose_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

struct BlockPool::State {
  using Block = std::pair<std::int64_t, std::byte*>;

  const double spare_ratio;
  const std::int64_t slack_bytes;
  BlockSource* const source;  // null: the host's
  mutable std::mutex mutex;
  std::multimap<std::int64_t, std::byte*> idle;  // by size
  std::int64_t idle_bytes = 0, used_bytes = 0;
  std::int64_t peak_bytes = 0, former_peak_bytes = 0;  // used at once in this period and the one before
  std::int64_t ready_bytes = 0;                        // kept in any case

  State(double ratio, std::int64_t slack, BlockSource* from) : spare_ratio(ratio), slack_bytes(slack), source(from) {}
  ~State() { free_all(take_out_beyond(0)); }

  std::int64_t kept_bytes() const {
    return std::max(std::max(peak_bytes, former_peak_bytes) + slack_bytes, ready_bytes);
  }

  // Takes blocks out of the idle ones, the smallest first, until at most `bytes` are idle; the caller frees them
  // unlocked.
  std::vector<Block> take_out_beyond(std::int64_t bytes) {
    std::vector<Block> blocks;
    while (idle_bytes > std::max<std::int64_t>(bytes, 0)) {
      blocks.push_back(*idle.begin());
      idle_bytes -= idle.begin()->first;
      idle.erase(idle.begin());
    }
    return blocks;
  }

  std::int64_t free_all(const std::vector<Block>& blocks) {
    std::int64_t freed = 0;
    for (const auto& [size, data] : blocks) {
      if (source != nullptr) source->free(data, size);
      else free_block(data, size);
      freed += size;
    }
    return freed;
  }

  std::multimap<std::int64_t, std::byte*>::iterator find_idle(std::int64_t bytes, const std::byte* preferred) {
    const auto first = idle.lower_bound(bytes);
    const double largest = static_cast<double>(bytes) * spare_ratio;
    const auto fits = [&](const Block& block) { return static_cast<double>(block.first) <= largest; };
    if (preferred != nullptr) {
      const auto found = std::find_if(first, idle.end(), [&](const Block& block) { return block.second == preferred; });
      if (found != idle.end() && fits(*found)) return found;
    }
    return first != idle.end() && fits(*first) ? first : idle.end();
  }

  Block take(std::int64_t bytes, const std::byte* preferred) {
    Block block(bytes, nullptr);
    std::vector<Block> replaced;
    {
      std::lock_guard lock(mutex);
      if (const auto found = find_idle(bytes, preferred); found != idle.end()) {
        block = *found;
        idle_bytes -= block.first;
        idle.erase(found);
      }
      used_bytes += block.first;
      peak_bytes = std::max(peak_bytes, used_bytes);
      replaced = take_out_beyond(kept_bytes() - used_bytes);
    }
    free_all(replaced);
    if (block.second != nullptr) return block;
    try {
      block.second = source != nullptr ? source->allocate(bytes) : allocate_block(bytes);
    } catch (...) {
      std::lock_guard lock(mutex);
      used_bytes -= bytes;
      throw;
    }
    return block;
  }

  void give_back(Block block) {
    std::vector<Block> surplus;
    bool first = false;
    {
      std::lock_guard lock(mutex);
      used_bytes -= block.first;
      first = idle.empty();
      idle.insert(block);
      idle_bytes += block.first;
      surplus = take_out_beyond(kept_bytes() - used_bytes);
    }
    free_all(surplus);
    if (first) IdleTrimmer::process().wake();
  }
};

BlockPool::BlockPool(double spare_ratio, std::int64_t slack_bytes, BlockSource* source)
    : state_(std::make_shared<State>(spare_ratio, slack_bytes, source)) {}

std::shared_ptr<std::byte> BlockPool::take(std::int64_t bytes, std::shared_ptr<MemoryAccount> account, Purpose purpose,
                                           const std::byte* preferred, bool with_process) {
  const std::int64_t charged = size_class(bytes);
  account->charge(purpose, charged, with_process);
  State::Block block;
  try {
    block = state_->take(charged, preferred);
  } catch (...) {
    account->release(purpose, charged, with_process);
    throw;
  }
  // The sanitizer knows nothing of a device's addresses.
  const std::size_t spare = state_->source == nullptr ? static_cast<std::size_t>(block.first - bytes) : 0;
  base::poison(block.second + bytes, spare);
  return {block.second, [state = state_, size = block.first, account = std::move(account), purpose, charged, spare,
                         with_process](std::byte* data) {
            base::unpoison(data + size - spare, spare);
            account->release(purpose, charged, with_process);
            state->give_back({size, data});
          }};
}

void BlockPool::keep_ready(std::int64_t bytes) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ready_bytes += bytes > 0 ? size_class(bytes) : -size_class(-bytes);
  }
  if (bytes <= 0) return;
  const State::Block block = state_->take(size_class(bytes), nullptr);
  std::fill_n(block.second, block.first, std::byte{});
  state_->give_back(block);
}

void BlockPool::trim() {
  std::vector<State::Block> blocks;
  {
    std::lock_guard lock(state_->mutex);
    blocks = state_->take_out_beyond(0);
  }
  state_->free_all(blocks);
}

std::int64_t BlockPool::end_period() {
  std::vector<State::Block> blocks;
  {
    std::lock_guard lock(state_->mutex);
    State& state = *state_;
    state.former_peak_bytes = std::exchange(state.peak_bytes, state.used_bytes);
    const bool quiet = state.former_peak_bytes <= state.used_bytes;
    blocks = state.take_out_beyond((quiet ? state.ready_bytes : state.kept_bytes()) - state.used_bytes);
  }
  return state_->free_all(blocks);
}

std::int64_t BlockPool::idle_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->idle_bytes;
}

std::shared_ptr<std::byte[]> system_block(std::int64_t bytes) {
  const std::int64_t size = size_class(bytes);
  return {allocate_block(size), [size](std::byte* data) { free_block(data, size); }};
}

// Never destroyed: blocks may come back while the process ends.
BlockPool& arena_blocks() {
  // An arena lives as long as a run: one much larger than needed is better than a fresh one.
  static BlockPool& pool = *new BlockPool(1e18, 0);
  return pool;
}

BlockPool& result_blocks() {
  // The user may keep a result for long.
  static BlockPool& pool = *new BlockPool(2, std::int64_t{16} << 20);
  return pool;
}

void trim_process_memory() {
  arena_blocks().trim();
  result_blocks().trim();
  trim_device_blocks();
  malloc_trim(0);
}

namespace {

std::shared_ptr<std::byte> take_small(std::int64_t bytes, const std::shared_ptr<MemoryAccount>& account,
                                      Purpose purpose) {
  const std::int64_t charged = bytes + kAroundResultBytes;
  account->charge(purpose, charged);
  auto* data = static_cast<std::byte*>(
      std::aligned_alloc(64, static_cast<std::size_t>(base::round_up(std::max<std::int64_t>(bytes, 1), 64))));
  if (data == nullptr) {
    account->release(purpose, charged);
    fail(ErrorKind::over_budget, "the system has no {} of memory", base::format_bytes(bytes));
  }
  return {data, [account, purpose, charged](std::byte* block) {
            std::free(block);
            account->release(purpose, charged);
          }};
}

}  // namespace

Tensor ResultAllocator::allocate(DType type, Shape shape) {
  if (type == DType::string) {
    // Charged without the characters of long strings, which come later.
    auto charge = std::make_shared<MemoryCharge>(account_, purpose_, byte_count(type, shape));
    auto strings =
        std::make_shared<std::pair<Tensor, std::shared_ptr<MemoryCharge>>>(Tensor(type, shape), std::move(charge));
    void* data = strings->first.mutable_raw();
    return Tensor(type, std::move(shape), data, std::move(strings));
  }
  const std::int64_t bytes = byte_count(type, shape);
  std::shared_ptr<std::byte> block = bytes <= kSmallResultBytes ? take_small(bytes, account_, purpose_)
                                                                : result_blocks().take(bytes, account_, purpose_);
  void* data = block.get();
  return Tensor(type, std::move(shape), data, std::move(block));
}

Tensor ResultAllocator::with_characters(Tensor strings) {
  std::int64_t bytes = 0;
  // A short string lies in the object itself.
  for (const std::string& text : strings.values<std::string>())
    bytes += text.capacity() > 15 ? static_cast<std::int64_t>(text.capacity()) + 1 : 0;
  if (bytes == 0) return strings;
  auto charged = std::make_shared<std::pair<MemoryCharge, Tensor>>(MemoryCharge(account_, purpose_, bytes), strings);
  return Tensor(DType::string, strings.shape(), strings.mutable_raw(), std::move(charged));
}

}  // namespace tessera::runtime
