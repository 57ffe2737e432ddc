// The bytes of bodies, messages and answers that all connections of a server hold together, over HTTP and gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace tessera::serve {

// Bytes count when they have come or been made, not when they are announced. When they run out, the connection that
// receives or sends the slowest gives up its share. Thread-safe.
class BodyBudget {
 public:
  class Lease;

  explicit BodyBudget(std::int64_t limit) : limit_(limit) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  std::int64_t limit() const { return limit_; }
  std::int64_t used() const { return used_.load(); }
  // Asks the slowest of the transfers that have lasted a second or more to end, unless one that was asked half a second
  // ago or less still holds its bytes. Returns whether one ends.
  bool abandon_slowest();

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
  std::mutex mutex_;
  std::list<Lease*> transfers_;
};

// The bytes that one connection, or one call of gRPC, holds of the budget, which must outlive it. take(), give() and
// release() are thread-safe; the others are for one thread at a time, which a strand or a mutex of the owner's sees to.
class BodyBudget::Lease {
 public:
  explicit Lease(BodyBudget& budget) : budget_(budget) {}
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::int64_t held() const { return held_.load(); }
  // Takes so many bytes more, and returns whether they were left.
  bool take(std::int64_t bytes);
  // Gives so many bytes back, of those that are held.
  void give(std::int64_t bytes);
  // Gives everything back.
  void release();

  // From begin_transfer() to end_transfer(), and a moment longer, `abandon` may be called once, by any thread.
  void begin_transfer(std::function<void()> abandon);
  void moved(std::int64_t bytes) { moved_.fetch_add(bytes); }
  void end_transfer();

 private:
  friend class BodyBudget;
  using Clock = std::chrono::steady_clock;

  BodyBudget& budget_;
  std::atomic<std::int64_t> held_{0}, moved_{0};
  // Guarded by the budget's mutex.
  std::function<void()> abandon_;
  Clock::time_point began_, asked_;  // asked_: to end
  std::list<Lease*>::iterator place_;
  bool is_transfer_ = false;
};

}  // namespace tessera::serve
