// Streams and events of a simulated device. The stream's thread executes enqueued work as soon as it can; Timeline
// decides when the work begins and ends on the device's clock. Neither waits for the other.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/simulated/capture.h"
#include "backends/simulated/machine.h"
#include "backends/simulated/work_queue.h"
#include "backends/stream.h"

namespace tessera::backends::simulated {

// One record of an event: a point in a stream, with its time on the clock and its completion by the thread.
// Thread-safe.
class Mark {
 public:
  // `order`: what the checker of memory knows of the point, if there is one.
  Mark(TimePoint time, std::shared_ptr<WorkQueue> queue, MemoryChecker::Point order)
      : time_(std::move(time)), queue_(std::move(queue)), order_(std::move(order)) {}
  const TimePoint& time() const { return time_; }
  // Called when the stream's thread reaches the mark; `failure` is the queue's.
  void pass(const std::exception_ptr& failure);
  // Waits until the thread has reached the mark and returns the failure of the work before it, or null.
  std::exception_ptr wait() const;
  WorkQueue& queue() const { return *queue_; }
  // To be called when the host has waited for the mark.
  void tell_host(SimulatedMachine& machine) const;
  const MemoryChecker::Point& order() const { return order_; }

 private:
  const TimePoint time_;
  const std::shared_ptr<WorkQueue> queue_;
  const MemoryChecker::Point order_;
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

  const SimulatedMachine& machine() const { return machine_; }

  // The latest record. If it was made on a stream, its mark; if during a capture, its point there; null both if the
  // event was never recorded.
  struct Record {
    std::shared_ptr<Mark> mark;
    std::shared_ptr<Capture> capture;
    Capture::Point point;
  };
  Record latest() const;
  void set(Record record);

 private:
  // The mark of the latest record for a thread that wants to wait for it or ask about it; null if the event was never
  // recorded. Throws Error if that is not permitted.
  std::shared_ptr<Mark> mark_for_host(std::string_view what) const;

  SimulatedMachine& machine_;
  mutable std::mutex mutex_;
  Record record_;
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
  std::unique_ptr<Recording> end_capture(std::unique_ptr<Recording> previous) override;
  bool is_capturing() const override { return capture_ != nullptr && !capture_->has_ended(); }

  // Enqueues the kernel of an operator, which computes for `compute_ns`, plus the launch. The stream's thread calls
  // `work`, once per execution and once per replay of a recording. `name` has static storage.
  void launch(std::string_view name, std::int64_t compute_ns, std::vector<MemoryAccess> accesses,
              std::function<void()> work);
  // Executes the operation, whether the stream captures or not.
  void submit(const Operation& operation);
  // A mark at this point, without an event, whether the stream captures or not.
  std::shared_ptr<Mark> mark();
  // Lets work that is submitted after this call wait for the mark, and fail if the work before the mark failed.
  void wait_for(const std::shared_ptr<Mark>& mark);
  // As wait_for(), but a failure before the mark does not matter.
  void come_after(const std::shared_ptr<Mark>& mark);
  // Lets work that is submitted after this call run even if earlier work failed.
  void forget_failure() { queue_->push_forget(); }
  // Work enqueued after this call begins, on the clock, after the mark, which the threads have already passed.
  void wait_in_time(const Mark& mark);
  int number() const { return number_; }
  const SimulatedMachine& machine() const { return machine_; }

 private:
  void add(Operation operation);
  void enqueue_copy(Engine direction, void* to, const void* from, std::int64_t bytes);
  // Blocks the calling thread until the stream has done all that was submitted so far; failures stay with the stream.
  void wait_on_host();

  SimulatedMachine& machine_;
  const int number_;
  const std::shared_ptr<WorkQueue> queue_;
  std::shared_ptr<Capture> capture_;  // shared with streams that joined it and with events; kept after its end
  std::size_t branch_ = 0;            // of the capture
};

// The stream or event as one of the machine's. Throws Error(invalid_argument) if it belongs to another device.
SimulatedStream& stream_of(const SimulatedMachine& machine, Stream& stream);
SimulatedEvent& event_of(const SimulatedMachine& machine, Event& event);
const SimulatedEvent& event_of(const SimulatedMachine& machine, const Event& event);

}  // namespace tessera::backends::simulated
