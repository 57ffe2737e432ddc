// Streams and events of a simulated device. The stream's thread executes enqueued work as soon as it can; Timeline
// decides when the work begins and ends on the device's clock. Neither waits for the other.
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

// One record of an event: a point in a stream, with its time on the clock and its completion by the thread.
// Thread-safe.
class Mark {
 public:
  Mark(TimePoint time, std::shared_ptr<WorkQueue> queue) : time_(std::move(time)), queue_(std::move(queue)) {}
  const TimePoint& time() const { return time_; }
  // Called when the stream's thread reaches the mark; `failure` is the queue's.
  void pass(const std::exception_ptr& failure);
  // Waits until the thread has reached the mark and returns the failure of the work before it, or null.
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

  // The latest record; null if there was none.
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

  // Enqueues a kernel that computes for `compute_ns`, plus the launch. The stream's thread calls `work`, once per
  // execution and once per replay of a recording.
  void launch(std::int64_t compute_ns, std::function<void()> work);
  // A mark at this point, without an event; not allowed during capture.
  std::shared_ptr<Mark> mark();
  // Work enqueued after this call begins, on the clock, after the mark, which the threads have already passed.
  void wait_in_time(const Mark& mark) { machine_.timeline().wait(number_, mark.time()); }
  int number() const { return number_; }

 private:
  friend class SimulatedRecording;
  // One call on the stream. A call without work and events only takes time.
  struct Call {
    TimedOperation timing = {};
    bool is_launch = false;  // of a kernel; such calls can be made to fail
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
