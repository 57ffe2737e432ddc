#include "base/threads/clock.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/assert.h"
#include "base/numbers/philox.h"

namespace tessera {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime steady_time(std::int64_t time_ns) {
  return SteadyTime(std::chrono::duration_cast<SteadyTime::duration>(std::chrono::nanoseconds(time_ns)));
}

class SteadySignal final : public Clock::Signal {
 public:
  void notify() override {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_one();  // under the lock, because the waiting thread may destroy the signal once it has the lock
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return notified_; });
    notified_ = false;
  }
  bool wait_until(std::int64_t time_ns) override {
    std::unique_lock lock(mutex_);
    const bool notified = changed_.wait_until(lock, steady_time(time_ns), [&] { return notified_; });
    notified_ = false;
    return notified;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  void sleep_until(std::int64_t time_ns) override { std::this_thread::sleep_until(steady_time(time_ns)); }
  std::unique_ptr<Signal> make_signal() override { return std::make_unique<SteadySignal>(); }
};

}  // namespace

Clock& Clock::steady() {
  static SteadyClock& clock = *new SteadyClock;  // threads may read it while static objects die
  return clock;
}

}  // namespace tessera

namespace tessera::base {
namespace {

constexpr int kOutside = -1;
// The number of the calling thread among those of run(), and the clock whose run() it belongs to.
thread_local int current_thread = kOutside;
thread_local const void* current_clock = nullptr;

}  // namespace

struct VirtualClock::State {
  // When a thread goes on: at `time_ns`; threads with equal times go on in the order of a number drawn from the seed.
  struct Turn {
    std::int64_t time_ns;
    std::uint64_t drawn;
    int thread;
    auto operator<=>(const Turn&) const = default;
  };
  struct Thread {
    std::condition_variable changed;
    std::optional<Turn> turn;  // while it waits for a time, or for its turn
    std::uint64_t events = 0;  // counts the thread's events so far
  };

  explicit State(std::uint64_t given) : seed(given) {}

  const std::uint64_t seed;
  std::mutex mutex;
  std::vector<std::unique_ptr<Thread>> threads;
  std::map<Turn, int> turns;
  int running = kOutside;

  bool calls_from_run() const { return current_clock == this; }

  void add_turn(int index, std::int64_t time_ns) {
    Thread& thread = *threads[static_cast<std::size_t>(index)];
    const std::uint64_t drawn = Philox(seed, (static_cast<std::uint64_t>(index) << 40) + thread.events++).next_u64();
    thread.turn = Turn{time_ns, drawn, index};
    turns.emplace(*thread.turn, index);
  }

  void take_turn_back(int index) {
    Thread& thread = *threads[static_cast<std::size_t>(index)];
    if (!thread.turn) return;
    turns.erase(*thread.turn);
    thread.turn.reset();
  }

  // Lets the next thread run, if none is running and one waits for its turn.
  void pass_on(std::atomic<std::int64_t>& now_ns) {
    if (running != kOutside || turns.empty()) return;
    const Turn next = turns.begin()->first;
    take_turn_back(next.thread);
    if (next.time_ns > now_ns.load(std::memory_order_relaxed)) now_ns.store(next.time_ns, std::memory_order_release);
    running = next.thread;
    threads[static_cast<std::size_t>(running)]->changed.notify_one();
  }

  // Stops the calling thread until its turn comes.
  void stop(std::unique_lock<std::mutex>& lock, std::atomic<std::int64_t>& now_ns) {
    running = kOutside;
    pass_on(now_ns);
    const int self = current_thread;
    threads[static_cast<std::size_t>(self)]->changed.wait(lock, [&] { return running == self; });
  }
};

class VirtualClock::VirtualSignal final : public Clock::Signal {
 public:
  explicit VirtualSignal(VirtualClock& clock) : clock_(clock), state_(*clock.state_) {}

  void notify() override {
    const std::lock_guard lock(state_.mutex);
    notified_ = true;
    if (waiting_ == kOutside) return outside_.notify_one();
    state_.take_turn_back(waiting_);
    state_.add_turn(waiting_, clock_.now_ns());
    waiting_ = kOutside;
    state_.pass_on(clock_.now_ns_);
  }

  void wait() override {
    std::unique_lock lock(state_.mutex);
    if (state_.calls_from_run() && !notified_) {
      waiting_ = current_thread;
      state_.stop(lock, clock_.now_ns_);
    } else {
      outside_.wait(lock, [&] { return notified_; });
    }
    notified_ = false;
  }

  bool wait_until(std::int64_t time_ns) override {
    std::unique_lock lock(state_.mutex);
    if (!notified_ && state_.calls_from_run()) {
      waiting_ = current_thread;
      state_.add_turn(waiting_, std::max(time_ns, clock_.now_ns()));
      state_.stop(lock, clock_.now_ns_);
      waiting_ = kOutside;
    }
    const bool notified = notified_;
    notified_ = false;
    lock.unlock();
    if (!notified && time_ns > clock_.now_ns()) clock_.sleep_until(time_ns);  // from outside run()
    return notified;
  }

 private:
  VirtualClock& clock_;
  State& state_;
  bool notified_ = false;
  int waiting_ = kOutside;  // the thread of run() that waits here
  std::condition_variable outside_;
};

VirtualClock::VirtualClock(std::uint64_t seed, std::int64_t start_ns)
    : now_ns_(start_ns), state_(std::make_unique<State>(seed)) {}

VirtualClock::~VirtualClock() = default;

std::unique_ptr<Clock::Signal> VirtualClock::make_signal() {
  return std::make_unique<VirtualSignal>(*this);
}

void VirtualClock::sleep_until(std::int64_t time_ns) {
  std::unique_lock lock(state_->mutex);
  const std::int64_t time = std::max(time_ns, now_ns());
  if (!state_->calls_from_run()) return now_ns_.store(time, std::memory_order_release);
  state_->add_turn(current_thread, time);
  state_->stop(lock, now_ns_);
}

void VirtualClock::run(const std::vector<std::function<void()>>& bodies) {
  State& state = *state_;
  std::vector<std::exception_ptr> errors(bodies.size());
  std::vector<std::thread> started;
  {
    std::unique_lock lock(state.mutex);
    TESSERA_ASSERT(state.threads.empty(), "one call of run() at a time");
    for (std::size_t i = 0; i < bodies.size(); ++i) state.threads.push_back(std::make_unique<State::Thread>());
    for (std::size_t i = 0; i < bodies.size(); ++i) state.add_turn(static_cast<int>(i), now_ns());
  }
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    started.emplace_back([this, &state, &bodies, &errors, i] {
      current_thread = static_cast<int>(i);
      current_clock = &state;
      {
        std::unique_lock lock(state.mutex);
        state.threads[i]->changed.wait(lock, [&] { return state.running == static_cast<int>(i); });
      }
      try {
        bodies[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
      current_clock = nullptr;
      const std::lock_guard lock(state.mutex);
      state.running = kOutside;
      state.pass_on(now_ns_);
    });
  }
  {
    const std::lock_guard lock(state.mutex);
    state.pass_on(now_ns_);
  }
  for (std::thread& thread : started) thread.join();
  state.threads.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tessera::base
