// Who holds how much of a device's memory, and who may have more.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tessera/share.h"

namespace tessera::share {

// A job may always hold what it is guaranteed. Beyond that it may hold what is free and guaranteed to nobody else, up
// to its limit. Thread-safe.
class MemoryLedger {
 public:
  explicit MemoryLedger(std::int64_t capacity_bytes) : capacity_(capacity_bytes) {}  // 0: not bounded

  // Throws Error(over_budget) where the guarantee cannot be given, since others have it or hold the memory.
  void add_job(int job, const JobOptions& options);
  // What the job held is free.
  void remove_job(int job);
  // Throws Error(over_budget) that names the job, the request and what is free, with everything as it was.
  void charge(int job, std::int64_t bytes, const std::string& what);
  void release(int job, std::int64_t bytes);

  std::int64_t used_bytes(int job) const;
  std::int64_t peak_bytes(int job) const;
  // Of all jobs at once.
  std::int64_t peak_bytes() const;

 private:
  struct Account {
    std::string name;
    std::int64_t guarantee = 0, limit = 0, used = 0, peak = 0;
    std::int64_t reserved() const { return used > guarantee ? used : guarantee; }
  };
  std::int64_t free_bytes() const;  // guaranteed to nobody

  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::map<int, Account> accounts_;
  std::int64_t used_ = 0, peak_ = 0;
};

}  // namespace tessera::share
