// What a thread has to see to while it computes. Python runs the handlers of signals in its main thread alone: a thread
// that computes for seconds there has to look for them now and then.
#pragma once

namespace tessera::base {

// Asked for at the yield points of the thread that has it (see yield_point), which may follow each other within
// microseconds: whoever implements it decides how often there is something to do.
class ThreadDuty {
 public:
  // Called between two parts of the work, with all of its locks free but those that a run holds throughout. Must not
  // throw; work is stopped by its Cancellation.
  virtual void see_to() noexcept = 0;

 protected:
  ~ThreadDuty() = default;
};

// While it lives, the thread that made it has this duty, in place of one that it had before. Destroyed by the same
// thread, in the reverse order.
class OnDuty {
 public:
  explicit OnDuty(ThreadDuty& duty);
  ~OnDuty();
  OnDuty(const OnDuty&) = delete;
  OnDuty& operator=(const OnDuty&) = delete;

 private:
  ThreadDuty* former_;
};

// While it lives, the core that the calling thread computes on, if it does, is free for others, so that the thread may
// wait for what computes elsewhere.
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
