// One request on its way through the server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "serve/protocol/failure.h"
#include "serve/protocol/inference.h"
#include "tessera/clock.h"
#include "tessera/session.h"

namespace tessera::serve {

struct Outcome {
  std::optional<Failure> failure;  // without a value: `response` holds
  InferenceResponse response;
};

class RequestTrace;

// Where the time of a request went, all steps of an ensemble together.
struct RequestTimes {
  std::atomic<std::int64_t> queue_ns{0}, run_ns{0};
};

// The time of the steady clock in nanoseconds, in which arrivals and deadlines count.
inline std::int64_t now_ns() {
  return Clock::steady().now_ns();
}

class Call {
 public:
  // Nobody waits for the answer any more. By any thread.
  void cancel() {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      cancellation.cancel();
      hook = std::exchange(hook_, nullptr);
    }
    if (hook) hook();
  }
  // `hook` is called by cancel(): at once if the call has been cancelled already.
  void on_cancel(std::function<void()> hook) {
    {
      const std::lock_guard lock(mutex_);
      if (!cancellation.flag().load(std::memory_order_relaxed)) {
        hook_ = std::move(hook);
        return;
      }
    }
    hook();
  }

  InferenceRequest request;
  Cancellation cancellation;            // set when nobody waits for the answer any more
  std::int64_t arrival_ns = 0;          // of the steady clock, like the deadline
  std::int64_t deadline_ns = 0;         // 0: none
  int depth = 0;                        // of the ensembles that the call is a step of, one within the other
  bool may_run_here = false;            // whether a short run may be computed by the thread that submits the call
  std::shared_ptr<RequestTrace> trace;  // null: the request is not traced
  std::shared_ptr<RequestTimes> times;  // null: nobody asks
  // Called exactly once, by any thread, unless what was given the call threw before.
  std::function<void(Outcome)> done;

 private:
  std::mutex mutex_;
  std::function<void()> hook_;
};

}  // namespace tessera::serve
