// Who holds how much of a device's memory, and who may have more.
//
// Memory is *firm* (it stays until its holder gives it back) or *borrowed*: the arenas of background runs, which can be
// asked for them between two steps and then spill. Firm memory is granted as if nothing was borrowed: what is
// guaranteed to a job is never given to another as firm memory. Borrowed memory may lie in what is guaranteed to others
// and not used by them, and is asked back when they claim it.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "tessera/share.h"

namespace tessera::share {

// The temporary memory of one run. Its fields are the ledger's but for those that are set before it is added.
struct TemporaryMemory {
  int job = 0;
  bool may_spill = false;
  Clock::Signal* signal = nullptr;      // may be null; notified when it may be worth asking again, or memory is wanted
  std::atomic<std::int64_t> wanted{0};  // of its bytes, by others that wait
  std::int64_t bytes = 0;
  std::int64_t asked_ns = 0;   // latest
  std::int64_t waits_for = 0;  // bytes that it was not granted yet
  // After it spilled: how long others must have left its memory alone before it takes that again. The time that the
  // last spill took, so that at most half of the time goes into spilling.
  std::int64_t quiet_ns = 0;
};

// A job may always hold what it is guaranteed. Beyond that it may hold what is free and guaranteed to nobody else, up
// to its limit. Thread-safe.
class MemoryLedger {
 public:
  explicit MemoryLedger(std::int64_t capacity_bytes) : capacity_(capacity_bytes) {}  // 0: not bounded

  // Throws Error(over_budget) where the guarantee cannot be given, since others have it or hold the memory.
  void add_job(int job, const JobOptions& options);
  // Removes a job and frees what it held.
  void remove_job(int job);

  // Firm memory, at once: where it is lent to others, they are asked for it and the sum exceeds the capacity until they
  // have reached the end of their steps. Throws Error(over_budget) that names the job, the request and what is free,
  // with everything as it was.
  void charge(int job, std::int64_t bytes, const std::string& what);
  void release(int job, std::int64_t bytes);

  // `memory` lives until it is removed; what it holds then is free.
  void add(TemporaryMemory& memory);
  void remove(TemporaryMemory& memory, std::int64_t now_ns);
  // Whether the bytes were granted. Else `memory` waits until they are or until it is removed: those that may spill are
  // asked for what is lent to them. Firm memory of a run that `holds_more` is granted as by charge(). Throws
  // Error(over_budget) where they do not fit even while no other run holds anything; of a run that may spill, where
  // they do not fit beside the firm memory of its own job.
  bool try_take(TemporaryMemory& memory, std::int64_t bytes, bool holds_more, std::int64_t now_ns);
  void give_back(TemporaryMemory& memory, std::int64_t bytes, std::int64_t now_ns);

  std::int64_t used_bytes(int job) const;
  std::int64_t peak_bytes(int job) const;
  // The peak of the sum over all jobs.
  std::int64_t peak_bytes() const;

 private:
  struct Account {
    std::string name;
    std::int64_t guarantee = 0, limit = 0, used = 0, peak = 0;
    std::int64_t borrowed = 0;   // of what is used
    std::int64_t temporary = 0;  // of what is used and not borrowed: it is free when the runs in progress end
    std::int64_t firm() const { return used - borrowed; }
    std::int64_t reserved() const { return firm() > guarantee ? firm() : guarantee; }
  };
  // All below needs the mutex held.
  std::int64_t free_bytes() const;  // guaranteed to nobody
  void check_limit(const Account& account, std::int64_t bytes, const std::string& what) const;
  [[noreturn]] void refuse(const Account& account, std::int64_t bytes, const std::string& what) const;
  bool has_reserve(const Account& account, std::int64_t bytes) const;
  bool fits_alone(const Account& account, std::int64_t bytes, bool may_spill) const;
  void use(Account& account, std::int64_t bytes);
  void ask_back(std::int64_t bytes);
  std::int64_t waiting_firm_bytes() const;
  std::int64_t waiting_borrowed_bytes() const;
  bool may_borrow(const TemporaryMemory& memory, std::int64_t bytes, std::int64_t now_ns) const;
  void wake_waiting();

  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::map<int, Account> accounts_;
  std::list<TemporaryMemory*> temporary_;  // in the order in which they were added
  std::int64_t used_ = 0, peak_ = 0;
  std::int64_t needed_ns_ = 0;  // when firm memory was last used in which a borrower might have been that waits
};

}  // namespace tessera::share
