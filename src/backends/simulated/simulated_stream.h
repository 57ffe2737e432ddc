// Streams and events of a simulated device. What is enqueued is executed by the stream's thread as soon as it can be;
// when it begins and ends on the device's clock is Timeline's to say, and neither waits for the other.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/simulated/machine.h"
#include "backends/simulated/work_queue.h"
#include "backends/stream.h"

namespace tessera::backends::simulated {

// One record of an event: a place in the order of a stream, on the clock and for the threads. Thread-safe.
class Mark {
 public:
  Mark(TimePoint time, std::shared_ptr<WorkQueue> queue) : time_(std::move(time)), queue_(std::move(queue)) {}
  const TimePoint& time() const { return time_; }
  // The stream's thread has come here; `failure` is the queue's.
  void pass(const std::exception_ptr& failure);
  // Waits for that and returns the failure of what stands before the mark, or null.
  std::exception_ptr wait() const;
  WorkQueue& queue() const { return *queue_; }

 private:
  const TimePoint time_;
  const std::shared_ptr<WorkQueue> queue_;
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_;
  bool is_passed_ = false;
  std::exception_ptr failure_;
};

class SimulatedEvent final : public Event {
 public:
  explicit SimulatedEvent(SimulatedMachine& machine) : machine_(machine) {}
  bool done() const override;
  void wait() const override;
  std::int64_t time_ns() const override;

  // The latest record; null: there was none.
  std::shared_ptr<Mark> mark() const;
  void set_mark(std::shared_ptr<Mark> mark);

 private:
  SimulatedMachine& machine_;
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

class SimulatedStream final : public Stream {
 public:
  explicit SimulatedStream(SimulatedMachine& machine);
  ~SimulatedStream() override;

  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_within(void* to, const void* from, std::int64_t bytes) override;
  void fill(void* to, std::byte value, std::int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronise() override;
  void begin_capture() override;
  std::unique_ptr<Recording> end_capture() override;

  // A kernel that computes for so long, beside its launch. `work` is run by the stream's thread, and as often as a
  // recording is replayed.
  void launch(std::int64_t compute_ns, std::function<void()> work);
  // A mark at this place, without an event; not while work is recorded.
  std::shared_ptr<Mark> mark();
  // What is enqueued from here on begins, on the clock, after the mark, which the threads have passed already.
  void wait_in_time(const Mark& mark) { machine_.timeline().wait(number_, mark.time()); }
  int number() const { return number_; }

 private:
  friend class SimulatedRecording;
  // One call of the stream. Without work and events it only takes time.
  struct Call {
    TimedOperation timing = {};
    bool is_launch = false;  // of a kernel, which can be made to fail
    std::function<void()> work = nullptr;
    SimulatedEvent* records = nullptr;
    const SimulatedEvent* waits = nullptr;
  };
  void add(Call call);
  void submit(const Call& call);
  void wait_for(const std::shared_ptr<Mark>& mark);
  void enqueue_copy(Engine direction, void* to, const void* from, std::int64_t bytes);

  SimulatedMachine& machine_;
  const int number_;
  const std::shared_ptr<WorkQueue> queue_;
  bool captures_ = false;
  std::vector<Call> captured_;
};

}  // namespace tessera::backends::simulated
