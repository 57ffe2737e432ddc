#include "share/memory_ledger.h"

#include <algorithm>

#include "base/assert.h"
#include "base/error.h"
#include "base/units.h"
#include "share/policy.h"

namespace tessera::share {

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
          options.name, base::format_bytes(options.guarantee_bytes),
          base::format_bytes(std::max<std::int64_t>(free, 0)), base::format_bytes(capacity_));
  accounts_[job] = {options.name, options.guarantee_bytes, options.limit_bytes};
}

void MemoryLedger::remove_job(int job) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(job);
  if (found == accounts_.end()) return;
  used_ -= found->second.used;
  accounts_.erase(found);
}

void MemoryLedger::charge(int job, std::int64_t bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  Account& account = accounts_.at(job);
  require(account.limit == 0 || bytes <= account.limit - account.used, ErrorKind::over_budget,
          "job '{}' asked for {} for {}, and its limit is {}, of which {} are free; raise the limit or make the job "
          "smaller",
          account.name, base::format_bytes(bytes), what, base::format_bytes(account.limit),
          base::format_bytes(account.limit - account.used));
  const std::int64_t own = account.reserved() - account.used, free = free_bytes();
  require(bytes <= own || bytes - own <= free, ErrorKind::over_budget,
          "job '{}' asked for {} for {}, but {} are free of the device's {} (the job holds {} and is guaranteed {}; "
          "other jobs use or are guaranteed the rest)",
          account.name, base::format_bytes(bytes), what, base::format_bytes(own + std::max<std::int64_t>(free, 0)),
          base::format_bytes(capacity_), base::format_bytes(account.used), base::format_bytes(account.guarantee));
  account.used += bytes;
  account.peak = std::max(account.peak, account.used);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

void MemoryLedger::release(int job, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(job);
  if (found == accounts_.end()) return;
  TESSERA_ASSERT(bytes <= found->second.used, "a job gave back more memory than it held");
  found->second.used -= bytes;
  used_ -= bytes;
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
