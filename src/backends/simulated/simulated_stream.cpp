#include "backends/simulated/simulated_stream.h"

#include <cstring>

#include "base/assert.h"
#include "base/error.h"

namespace tessera::backends::simulated {

void Mark::pass(const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  is_passed_ = true;
  failure_ = failure;
  passed_.notify_all();
}

std::exception_ptr Mark::wait() const {
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [this] { return is_passed_; });
  return failure_;
}

std::shared_ptr<Mark> SimulatedEvent::mark() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

void SimulatedEvent::set_mark(std::shared_ptr<Mark> mark) {
  const std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

bool SimulatedEvent::done() const {
  const std::shared_ptr<Mark> latest = mark();
  if (latest == nullptr) return true;
  if (!machine_.timeline().is_reached(latest->time())) return false;
  latest->wait();
  return true;
}

void SimulatedEvent::wait() const {
  const std::shared_ptr<Mark> latest = mark();
  if (latest == nullptr) return;
  machine_.timeline().wait_on_host(latest->time());
  const std::exception_ptr failure = latest->wait();
  if (failure == nullptr) return;
  // The failure is reported here: the stream works again and does not report it a second time.
  latest->queue().take_failure();
  std::rethrow_exception(failure);
}

std::int64_t SimulatedEvent::time_ns() const {
  const std::shared_ptr<Mark> latest = mark();
  return latest != nullptr ? machine_.timeline().wait_on_host(latest->time()) : 0;
}

SimulatedStream::SimulatedStream(SimulatedMachine& machine)
    : machine_(machine), number_(machine.timeline().add_stream()), queue_(std::make_shared<WorkQueue>()) {}

SimulatedStream::~SimulatedStream() {
  queue_->take_failure();
  machine_.timeline().remove_stream(number_);
}

void SimulatedStream::submit(const Call& call) {
  if (call.waits != nullptr) {
    if (const std::shared_ptr<Mark> mark = call.waits->mark()) wait_for(mark);
    return;
  }
  if (call.records != nullptr) {
    call.records->set_mark(mark());
    return;
  }
  machine_.timeline().enqueue(number_, call.timing);
  if (!call.is_launch) {
    queue_->push(call.work);
    return;
  }
  // Launches are counted when they are enqueued, so that the same one fails in each run; the queue reports the failure.
  std::exception_ptr failure;
  try {
    machine_.count_launch();
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (failure != nullptr) queue_->push([failure] { std::rethrow_exception(failure); });
  else queue_->push(call.work);
}

void SimulatedStream::add(Call call) {
  if (captures_) captured_.push_back(std::move(call));
  else submit(call);
}

void SimulatedStream::launch(std::int64_t compute_ns, std::function<void()> work) {
  add({.timing = {Engine::compute, machine_.launch_ns(), compute_ns}, .is_launch = true, .work = std::move(work)});
}

void SimulatedStream::enqueue_copy(Engine direction, void* to, const void* from, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none;
  add({.timing = machine_.copy_between(direction, bytes),
       .work = [machine = &machine_, direction, to, from, bytes, computes] {
         const auto size = static_cast<std::size_t>(bytes);
         if (computes && bytes > 0) std::memcpy(machine->queue_address(to), machine->queue_address(from), size);
         else if (direction == Engine::to_host && bytes > 0) std::memset(to, 0, size);
       }});
}

void SimulatedStream::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  enqueue_copy(Engine::to_device, to, from, bytes);
}

void SimulatedStream::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  enqueue_copy(Engine::to_host, to, from, bytes);
}

void SimulatedStream::copy_within(void* to, const void* from, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none && bytes > 0;
  add({.timing = machine_.copy_within(bytes), .work = [machine = &machine_, to, from, bytes, computes] {
         if (computes)
           std::memcpy(machine->queue_address(to), machine->queue_address(from), static_cast<std::size_t>(bytes));
       }});
}

void SimulatedStream::fill(void* to, std::byte value, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none && bytes > 0;
  add({.timing = machine_.fill(bytes), .work = [machine = &machine_, to, value, bytes, computes] {
         if (computes)
           std::memset(machine->queue_address(to), std::to_integer<int>(value), static_cast<std::size_t>(bytes));
       }});
}

std::shared_ptr<Mark> SimulatedStream::mark() {
  auto mark = std::make_shared<Mark>(machine_.timeline().record(number_), queue_);
  queue_->push_always([mark](const std::exception_ptr& failure) { mark->pass(failure); });
  return mark;
}

void SimulatedStream::wait_for(const std::shared_ptr<Mark>& mark) {
  machine_.timeline().wait(number_, mark->time());
  // Work that depends on failed work fails as well.
  queue_->push([mark] {
    if (const std::exception_ptr failure = mark->wait()) std::rethrow_exception(failure);
  });
}

void SimulatedStream::record(Event& event) {
  add({.records = &dynamic_cast<SimulatedEvent&>(event)});
}

void SimulatedStream::wait(const Event& event) {
  add({.waits = &dynamic_cast<const SimulatedEvent&>(event)});
}

void SimulatedStream::synchronise() {
  TESSERA_ASSERT(!captures_, "a stream cannot be waited for while it records work");
  machine_.timeline().synchronise(number_);
  if (const std::exception_ptr failure = queue_->take_failure()) std::rethrow_exception(failure);
}

// Enqueues a recording as one launch: only its first call takes the time of a launch.
class SimulatedRecording final : public Recording {
 public:
  explicit SimulatedRecording(std::vector<SimulatedStream::Call> calls) : calls_(std::move(calls)) {
    bool first = true;
    for (SimulatedStream::Call& call : calls_) {
      if (call.records != nullptr || call.waits != nullptr) continue;
      if (!first) call.timing.launch_ns = 0;
      call.is_launch = first;  // a replay is one launch, whatever its first call is
      first = false;
    }
  }
  void replay(Stream& stream) override {
    auto& simulated = dynamic_cast<SimulatedStream&>(stream);
    for (const SimulatedStream::Call& call : calls_) simulated.add(call);
  }

 private:
  std::vector<SimulatedStream::Call> calls_;
};

void SimulatedStream::begin_capture() {
  TESSERA_ASSERT(!captures_, "a stream records one thing at a time");
  captures_ = true;
}

std::unique_ptr<Recording> SimulatedStream::end_capture() {
  TESSERA_ASSERT(captures_, "a stream that records nothing cannot end its recording");
  captures_ = false;
  return std::make_unique<SimulatedRecording>(std::exchange(captured_, {}));
}

}  // namespace tessera::backends::simulated
