#include "share/memory_ledger.h"

#include <algorithm>
#include <ranges>

#include "base/assert.h"
#include "base/error.h"
#include "base/numbers/units.h"
#include "share/policy.h"

namespace tessera::share {
namespace {

const std::string kRun = "a run";
// Who waits asks again and again, many times in this.
constexpr std::int64_t kAskedAgainNs = 300'000'000;

void notify(const TemporaryMemory& memory) {
  if (memory.signal != nullptr) memory.signal->notify();
}

std::int64_t positive(std::int64_t bytes) {
  return std::max<std::int64_t>(bytes, 0);
}

}  // namespace

std::int64_t MemoryLedger::free_bytes() const {
  if (capacity_ == 0) return kNever;
  std::int64_t free = capacity_;
  for (const auto& [job, account] : accounts_) free -= account.reserved();
  return free;
}

void MemoryLedger::add_job(int job, const JobOptions& options) {
  const std::lock_guard lock(mutex_);
  const std::int64_t free = free_bytes();
  require(options.guarantee_bytes <= free, ErrorKind::over_budget,
          "job '{}' is to be guaranteed {}, but only {} of the device's {} are neither used by other jobs nor "
          "guaranteed to them",
          options.name, base::format_bytes(options.guarantee_bytes), base::format_bytes(positive(free)),
          base::format_bytes(capacity_));
  accounts_[job] = {options.name, options.guarantee_bytes, options.limit_bytes};
}

void MemoryLedger::remove_job(int job) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(job);
  if (found == accounts_.end()) return;
  used_ -= found->second.used;
  accounts_.erase(found);
  wake_waiting();
}

void MemoryLedger::check_limit(const Account& account, std::int64_t bytes, const std::string& what) const {
  require(account.limit == 0 || bytes <= account.limit - account.used, ErrorKind::over_budget,
          "job '{}' asked for {} for {}, and its limit is {}, of which {} are free; raise the limit or make the job "
          "smaller",
          account.name, base::format_bytes(bytes), what, base::format_bytes(account.limit),
          base::format_bytes(account.limit - account.used));
}

void MemoryLedger::refuse(const Account& account, std::int64_t bytes, const std::string& what) const {
  fail(ErrorKind::over_budget,
       "job '{}' asked for {} for {}, but {} are free of the device's {} (the job holds {} and is guaranteed {}; "
       "other jobs use or are guaranteed the rest)",
       account.name, base::format_bytes(bytes), what,
       base::format_bytes(account.reserved() - account.firm() + positive(free_bytes())), base::format_bytes(capacity_),
       base::format_bytes(account.used), base::format_bytes(account.guarantee));
}

// Whether so much more firm memory leaves every other job what it is guaranteed.
bool MemoryLedger::has_reserve(const Account& account, std::int64_t bytes) const {
  const std::int64_t own = account.reserved() - account.firm();
  return bytes <= own || bytes - own <= free_bytes();
}

// Whether the bytes fit beside what is held while no run is in progress, with their guarantees left to others. A
// borrower waits for others in any case: in other processes nobody knows which part of what they hold is of their runs.
bool MemoryLedger::fits_alone(const Account& account, std::int64_t bytes, bool may_spill) const {
  if (capacity_ == 0) return true;
  std::int64_t free = capacity_;
  for (const auto& [job, each] : accounts_) {
    const std::int64_t held = each.firm() - each.temporary;
    if (&each == &account) free -= held;
    else if (!may_spill) free -= std::max(held, each.guarantee);
  }
  return bytes <= free;
}

void MemoryLedger::use(Account& account, std::int64_t bytes) {
  account.used += bytes;
  account.peak = std::max(account.peak, account.used);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

// Asks those that may spill for so many bytes, the latest first; a job keeps what it is guaranteed.
void MemoryLedger::ask_back(std::int64_t bytes) {
  std::map<int, std::int64_t> lent;
  for (const auto& [job, account] : accounts_) lent[job] = account.used - account.reserved();
  for (TemporaryMemory* const memory : temporary_ | std::views::reverse) {
    if (!memory->may_spill) continue;
    std::int64_t& of_job = lent[memory->job];
    const std::int64_t wanted = std::min({memory->bytes, positive(of_job), positive(bytes)});
    of_job -= wanted;
    bytes -= wanted;
    if (wanted > 0 && memory->wanted.exchange(wanted) == 0) notify(*memory);
  }
}

void MemoryLedger::charge(int job, std::int64_t bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  Account& account = accounts_.at(job);
  check_limit(account, bytes, what);
  if (!has_reserve(account, bytes)) refuse(account, bytes, what);
  use(account, bytes);
  if (capacity_ > 0 && used_ > capacity_) ask_back(used_ - capacity_);
}

void MemoryLedger::release(int job, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(job);
  if (found == accounts_.end()) return;
  TESSERA_ASSERT(bytes <= found->second.used, "a job gave back more memory than it held");
  found->second.used -= bytes;
  used_ -= bytes;
  wake_waiting();
}

void MemoryLedger::add(TemporaryMemory& memory) {
  const std::lock_guard lock(mutex_);
  temporary_.push_back(&memory);
}

void MemoryLedger::remove(TemporaryMemory& memory, std::int64_t now_ns) {
  give_back(memory, memory.bytes, now_ns);
  const std::lock_guard lock(mutex_);
  temporary_.remove(&memory);
  if (waiting_firm_bytes() == 0 && used_ <= capacity_) {
    for (TemporaryMemory* const each : temporary_) each->wanted = 0;
  }
  wake_waiting();
}

std::int64_t MemoryLedger::waiting_firm_bytes() const {
  std::int64_t bytes = 0;
  for (const TemporaryMemory* const memory : temporary_) bytes += memory->may_spill ? 0 : memory->waits_for;
  return bytes;
}

std::int64_t MemoryLedger::waiting_borrowed_bytes() const {
  std::int64_t bytes = 0;
  for (const TemporaryMemory* const memory : temporary_) bytes += memory->may_spill ? memory->waits_for : 0;
  return bytes;
}

bool MemoryLedger::may_borrow(const TemporaryMemory& memory, std::int64_t bytes, std::int64_t now_ns) const {
  if (capacity_ == 0) return true;
  if (memory.quiet_ns > 0 && now_ns - needed_ns_ < memory.quiet_ns) return false;
  // Borrowers are served in order, so that large ones have their turn; not who no longer asks.
  const auto first = std::ranges::find_if(temporary_, [&](const TemporaryMemory* each) {
    return each == &memory || (each->may_spill && each->waits_for > 0 && now_ns - each->asked_ns < kAskedAgainNs);
  });
  return *first == &memory && used_ + bytes + waiting_firm_bytes() <= capacity_;
}

bool MemoryLedger::try_take(TemporaryMemory& memory, std::int64_t bytes, bool holds_more, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Account& account = accounts_.at(memory.job);
  memory.waits_for = 0;
  memory.asked_ns = now_ns;
  check_limit(account, bytes, kRun);
  if (!fits_alone(account, bytes, memory.may_spill)) refuse(account, bytes, kRun);
  bool granted = true;
  if (memory.may_spill) {
    granted = may_borrow(memory, bytes, now_ns);
  } else {
    granted = has_reserve(account, bytes);
    if (!granted && holds_more) refuse(account, bytes, kRun);
    const std::int64_t lent = capacity_ > 0 && granted ? positive(used_ + bytes - capacity_) : 0;
    if (lent > 0) ask_back(lent + waiting_firm_bytes());
    if (lent > 0 && !holds_more) granted = false;
  }
  if (!granted) {
    memory.waits_for = bytes;
    return false;
  }
  use(account, bytes);
  memory.bytes += bytes;
  (memory.may_spill ? account.borrowed : account.temporary) += bytes;
  if (memory.may_spill) memory.quiet_ns = 0;
  else if (capacity_ > 0 && used_ + waiting_borrowed_bytes() > capacity_) needed_ns_ = now_ns;
  return true;
}

void MemoryLedger::give_back(TemporaryMemory& memory, std::int64_t bytes, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  memory.bytes -= bytes;
  memory.wanted = memory.bytes > 0 ? positive(memory.wanted - bytes) : 0;
  const auto found = accounts_.find(memory.job);
  if (found == accounts_.end()) return;
  if (!memory.may_spill && capacity_ > 0 && used_ + waiting_borrowed_bytes() > capacity_) needed_ns_ = now_ns;
  found->second.used -= bytes;
  (memory.may_spill ? found->second.borrowed : found->second.temporary) -= bytes;
  used_ -= bytes;
  wake_waiting();
}

void MemoryLedger::wake_waiting() {
  for (const TemporaryMemory* const memory : temporary_) {
    if (memory->waits_for > 0) notify(*memory);
  }
}

std::int64_t MemoryLedger::used_bytes(int job) const {
  const std::lock_guard lock(mutex_);
  return accounts_.at(job).used;
}

std::int64_t MemoryLedger::peak_bytes(int job) const {
  const std::lock_guard lock(mutex_);
  return accounts_.at(job).peak;
}

std::int64_t MemoryLedger::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace tessera::share
