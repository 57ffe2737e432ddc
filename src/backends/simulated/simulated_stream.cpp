#include "backends/simulated/simulated_stream.h"

#include <cstring>
#include <utility>

#include "backends/simulated/recording.h"
#include "base/error.h"
#include "base/numbers/philox.h"

namespace tessera::backends::simulated {

namespace {

std::uint64_t pauses_of(const Options& options, int stream) {
  if (options.shuffle == 0) return 0;
  return base::Philox(static_cast<std::uint64_t>(options.shuffle), static_cast<std::uint64_t>(stream)).next_u64() | 1;
}

}  // namespace

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

SimulatedEvent::Record SimulatedEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void SimulatedEvent::set(Record record) {
  const std::lock_guard lock(mutex_);
  record_ = std::move(record);
}

void Mark::tell_host(SimulatedMachine& machine) const {
  if (MemoryChecker* const checker = machine.checker()) checker->host_waited(order_);
}

std::shared_ptr<Mark> SimulatedEvent::mark_for_host(std::string_view what) const {
  const Record record = latest();
  if (record.capture != nullptr) {
    // "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured
    // event, because they do not represent items scheduled for execution."
    const std::string why = fmt::format("{} is not permitted on an event that was last recorded by a capture", what);
    if (!record.capture->has_ended()) record.capture->invalidate(why);
    fail(ErrorKind::failed, "{}", why);
  }
  Capture::refuse_to_thread(what);
  return record.mark;
}

bool SimulatedEvent::done() const {
  const std::shared_ptr<Mark> latest = mark_for_host("a query");
  if (latest == nullptr) return true;
  if (!machine_.timeline().is_reached(latest->time())) return false;
  latest->wait();
  latest->tell_host(machine_);
  return true;
}

void SimulatedEvent::wait() const {
  const std::shared_ptr<Mark> latest = mark_for_host("a wait");
  if (latest == nullptr) return;
  machine_.timeline().wait_on_host(latest->time());
  const std::exception_ptr failure = latest->wait();
  latest->tell_host(machine_);
  if (failure == nullptr) return;
  // The failure is reported here: the stream works again and does not report it a second time.
  latest->queue().take_failure();
  std::rethrow_exception(failure);
}

std::int64_t SimulatedEvent::time_ns() const {
  const std::shared_ptr<Mark> latest = mark_for_host("a query of the time");
  return latest != nullptr ? machine_.timeline().wait_on_host(latest->time()) : 0;
}

SimulatedStream::SimulatedStream(SimulatedMachine& machine)
    : machine_(machine),
      number_(machine.timeline().add_stream()),
      queue_(std::make_shared<WorkQueue>(pauses_of(machine.options(), number_))) {}

SimulatedStream::~SimulatedStream() {
  if (is_capturing()) capture_->invalidate_without_throwing("a stream was destroyed while it recorded work");
  queue_->take_failure();
  machine_.timeline().remove_stream(number_);
  if (MemoryChecker* const checker = machine_.checker()) checker->remove_stream(number_);
}

void SimulatedStream::submit(const Operation& operation) {
  const TimedOperation& timing = operation.timing;
  if (MemoryChecker* const checker = machine_.checker())
    checker->add(number_, operation.name, operation.accesses, machine_.memory());
  machine_.timeline().enqueue(number_, timing);
  if (timing.engine == Engine::to_device || timing.engine == Engine::to_host)
    machine_.count_copy(timing.engine, operation.link_bytes);
  if (!operation.is_launch) {
    queue_->push(operation.work);
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
  else queue_->push(operation.work);
}

void SimulatedStream::add(Operation operation) {
  if (!is_capturing()) {
    submit(operation);
    return;
  }
  capture_->check();
  capture_->add(branch_, std::move(operation));
}

void SimulatedStream::launch(std::string_view name, std::int64_t compute_ns, std::vector<MemoryAccess> accesses,
                             std::function<void()> work) {
  add({.name = name,
       .timing = {Engine::compute, machine_.launch_ns(), compute_ns},
       .is_launch = true,
       .accesses = std::move(accesses),
       .work = std::move(work)});
}

void SimulatedStream::enqueue_copy(Engine direction, void* to, const void* from, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none;
  const bool up = direction == Engine::to_device;
  const bool is_pinned = machine_.pinned().contains(up ? from : to, bytes);
  // "If pageable memory must first be staged to pinned memory, the driver may synchronize with the stream and stage the
  // copy into pinned memory": not possible during a capture.
  if (!is_pinned && is_capturing())
    capture_->invalidate(
        fmt::format("a copy {} host memory that is not pinned cannot be recorded", up ? "from" : "to"));
  std::vector<MemoryAccess> accesses{up ? MemoryAccess{to, bytes, true} : MemoryAccess{from, bytes, false}};
  if (is_pinned) accesses.push_back(up ? MemoryAccess{from, bytes, false} : MemoryAccess{to, bytes, true});
  add({.name = up ? "copy to device" : "copy to host",
       .timing = machine_.copy_between(direction, bytes),
       .link_bytes = bytes,
       .accesses = std::move(accesses),
       .work = [machine = &machine_, direction, to, from, bytes, computes] {
         const auto size = static_cast<std::size_t>(bytes);
         if (computes && bytes > 0) std::memcpy(machine->queue_address(to), machine->queue_address(from), size);
         else if (direction == Engine::to_host && bytes > 0) std::memset(to, 0, size);
       }});
  // "For transfers between device memory and pageable host memory, the function might be synchronous with respect to
  // host." It is here: programs that need such copies to overlap work do not get that.
  if (!is_pinned) wait_on_host();
}

void SimulatedStream::wait_on_host() {
  const std::shared_ptr<Mark> end = mark();
  machine_.timeline().wait_on_host(end->time());
  end->wait();
  end->tell_host(machine_);
}

void SimulatedStream::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  enqueue_copy(Engine::to_device, to, from, bytes);
}

void SimulatedStream::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  enqueue_copy(Engine::to_host, to, from, bytes);
}

void SimulatedStream::copy_within(void* to, const void* from, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none && bytes > 0;
  add({.name = "copy within",
       .timing = machine_.copy_within(bytes),
       .accesses = {{to, bytes, true}, {from, bytes, false}},
       .work = [machine = &machine_, to, from, bytes, computes] {
         if (computes)
           std::memcpy(machine->queue_address(to), machine->queue_address(from), static_cast<std::size_t>(bytes));
       }});
}

void SimulatedStream::fill(void* to, std::byte value, std::int64_t bytes) {
  const bool computes = machine_.options().compute != Compute::none && bytes > 0;
  add({.name = "fill",
       .timing = machine_.fill(bytes),
       .accesses = {{to, bytes, true}},
       .work = [machine = &machine_, to, value, bytes, computes] {
         if (computes)
           std::memset(machine->queue_address(to), std::to_integer<int>(value), static_cast<std::size_t>(bytes));
       }});
}

std::shared_ptr<Mark> SimulatedStream::mark() {
  MemoryChecker* const checker = machine_.checker();
  auto mark = std::make_shared<Mark>(machine_.timeline().record(number_), queue_,
                                     checker != nullptr ? checker->point_of(number_) : MemoryChecker::Point());
  queue_->push_always([mark](const std::exception_ptr& failure) { mark->pass(failure); });
  return mark;
}

void SimulatedStream::wait_for(const std::shared_ptr<Mark>& mark) {
  wait_in_time(*mark);
  // Work that depends on failed work fails as well.
  queue_->push([mark] {
    if (const std::exception_ptr failure = mark->wait()) std::rethrow_exception(failure);
  });
}

void SimulatedStream::come_after(const std::shared_ptr<Mark>& mark) {
  wait_in_time(*mark);
  queue_->push([mark] { mark->wait(); });
}

void SimulatedStream::wait_in_time(const Mark& mark) {
  machine_.timeline().wait(number_, mark.time());
  if (MemoryChecker* const checker = machine_.checker()) checker->order_after(number_, mark.order());
}

void SimulatedStream::record(Event& event) {
  SimulatedEvent& recorded = event_of(machine_, event);
  if (!is_capturing()) {
    recorded.set({mark(), nullptr, {}});
    return;
  }
  // "When an event is recorded in a stream that is in capture mode, it results in a captured event."
  capture_->check();
  recorded.set({nullptr, capture_, capture_->point_of(branch_)});
}

void SimulatedStream::wait(const Event& event) {
  const SimulatedEvent::Record record = event_of(machine_, event).latest();
  if (record.capture == nullptr) {
    // "A dependency would have been created which crosses the capture sequence boundary. Only implicit in-stream
    // ordering dependencies are allowed to cross the boundary."
    if (is_capturing())
      capture_->invalidate("a stream that records work cannot wait for an event that was not recorded with it");
    if (record.mark != nullptr) wait_for(record.mark);
    return;
  }
  // "The operation is not permitted on an event which was last recorded in a capturing stream."
  require(!record.capture->has_ended(), ErrorKind::failed,
          "the event was last recorded by a capture that has ended: it must be recorded anew before a stream waits");
  record.capture->check();
  if (!is_capturing()) {
    // "When a captured event is waited on by a stream, it places the stream in capture mode if it is not already."
    capture_ = record.capture;
    branch_ = capture_->join(record.point);
  } else if (capture_ == record.capture) {
    capture_->wait(branch_, record.point);
  } else {
    // "The operation would have resulted in a merge of two independent capture sequences."
    const std::string why = "a stream that records work cannot wait for an event of another recording";
    record.capture->invalidate_without_throwing(why);
    capture_->invalidate(why);
  }
}

void SimulatedStream::synchronise() {
  // "It is invalid to synchronize or query the execution status of a stream which is being captured."
  if (is_capturing()) capture_->invalidate("a stream cannot be waited for while it records work");
  Capture::refuse_to_thread("a wait for a stream");
  machine_.timeline().synchronise(number_);
  if (MemoryChecker* const checker = machine_.checker()) {
    checker->host_waited(checker->point_of(number_));
    checker->throw_pending();
  }
  if (const std::exception_ptr failure = queue_->take_failure()) std::rethrow_exception(failure);
}

void SimulatedStream::begin_capture() {
  // "Capture [...] may only be initiated if the stream is not already in capture mode."
  if (is_capturing()) capture_->invalidate("a stream records one thing at a time");
  capture_ = std::make_shared<Capture>();
  branch_ = 0;
}

std::unique_ptr<Recording> SimulatedStream::end_capture(std::unique_ptr<Recording> previous) {
  require(is_capturing(), ErrorKind::failed, "a stream that records nothing cannot end its recording");
  // "The capture was not initiated in this stream."
  if (branch_ != 0) capture_->invalidate("a recording must be ended on the stream on which it began");
  RecordedWork work = capture_->end();
  if (auto* const recording = dynamic_cast<SimulatedRecording*>(previous.get());
      recording != nullptr && recording->update(work)) {
    machine_.count_recording(true);
    return previous;
  }
  machine_.count_recording(false);
  return std::make_unique<SimulatedRecording>(machine_, std::move(work));
}

SimulatedStream& stream_of(const SimulatedMachine& machine, Stream& stream) {
  auto* const own = dynamic_cast<SimulatedStream*>(&stream);
  require(own != nullptr && &own->machine() == &machine, ErrorKind::invalid_argument,
          "a stream of another device is given to device '{}'", machine.name());
  return *own;
}

// "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned." CUDA lets streams
// wait for events of other devices; the contract in stream.h does not.
const SimulatedEvent& event_of(const SimulatedMachine& machine, const Event& event) {
  const auto* const own = dynamic_cast<const SimulatedEvent*>(&event);
  require(own != nullptr && &own->machine() == &machine, ErrorKind::invalid_argument,
          "an event of another device is given to a stream of device '{}'", machine.name());
  return *own;
}

SimulatedEvent& event_of(const SimulatedMachine& machine, Event& event) {
  return const_cast<SimulatedEvent&>(event_of(machine, std::as_const(event)));
}

}  // namespace tessera::backends::simulated
