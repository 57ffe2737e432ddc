// Something that a thread must attend to regularly while it computes. For example, Python runs signal handlers in its
// main thread alone, so a thread that computes there for seconds has to check for signals now and then.
#pragma once

namespace tessera::base {

// Called at the yield points of its thread (see yield_point). These may follow each other within microseconds, so an
// implementation decides for itself how often it does something.
class ThreadDuty {
 public:
  // Called between two parts of the work, when the thread holds no locks but those that a run holds throughout. Must
  // not throw; it stops work by means of the run's Cancellation.
  virtual void see_to() noexcept = 0;

 protected:
  ~ThreadDuty() = default;
};

// Gives the constructing thread this duty for the object's lifetime, in place of one that it had before. Must be
// destroyed by the same thread, in reverse order of construction.
class OnDuty {
 public:
  explicit OnDuty(ThreadDuty& duty);
  ~OnDuty();
  OnDuty(const OnDuty&) = delete;
  OnDuty& operator=(const OnDuty&) = delete;

 private:
  ThreadDuty* former_;
};

// Frees the core that the calling thread holds, if any, for the object's lifetime, so that the thread may wait for
// something that is computed elsewhere.
class WithoutOwnCore {
 public:
  WithoutOwnCore();
  ~WithoutOwnCore();
  WithoutOwnCore(const WithoutOwnCore&) = delete;
  WithoutOwnCore& operator=(const WithoutOwnCore&) = delete;

 private:
  const bool holds_;
};

namespace detail {
void see_to_own_duty() noexcept;
}

}  // namespace tessera::base
