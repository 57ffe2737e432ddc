#include "runtime/device_run.h"

#include <exception>

#include "backends/device_copies.h"
#include "runtime/program.h"

namespace tessera::runtime {

using backends::MemorySpace;

std::vector<std::shared_ptr<void>> device_constants(const plan::Plan& plan, const ProgramEnvironment& environment) {
  std::vector<std::shared_ptr<void>> copies;
  if (!plan.uses_device) return copies;
  copies.resize(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const plan::Slot& slot = plan.slots[i];
    if (slot.place != plan::Place::constant || slot.space != MemorySpace::device || slot.constant.bytes() == 0)
      continue;
    if (environment.package != nullptr && environment.package->stream != nullptr && !slot.constant.is_deferred())
      environment.package->stream->need(slot.constant.raw(), slot.constant.bytes());
    copies[i] = environment.device_copies->find_or_copy(slot.constant);
  }
  return copies;
}

DeviceRun::DeviceRun(const backends::Device& device, DeviceState& state, RunControl& control)
    : device_(device), state_(state), control_(control), resources_(control.resources) {
  resources_.stream = state.stream.get();
  resources_.stop = nullptr;  // work that is enqueued may outlive the run in a recording
  if (control.timings == nullptr) return;
  origin_ = record();
  origin_ns_ = control.clock->now_ns();
}

DeviceRun::~DeviceRun() {
  if (!waits_) return;
  try {
    state_.stream->synchronise();
  } catch (const std::exception&) {
    // The error that ended the run came first.
  }
}

std::unique_ptr<backends::Event> DeviceRun::record() {
  std::unique_ptr<backends::Event> event = device_.make_event();
  state_.stream->record(*event);
  return event;
}

void DeviceRun::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  if (!is_on_device(to)) state_.stream->copy_to_host(to, from, bytes);
  else if (is_on_device(from)) state_.stream->copy_within(to, from, bytes);
  else state_.stream->copy_to_device(to, from, bytes);
}

void DeviceRun::mark(const plan::Step& step, std::size_t index) {
  if (!step.is_awaited) return;
  if (state_.events.size() <= index) state_.events.resize(index + 1);
  if (state_.events[index] == nullptr) state_.events[index] = device_.make_event();
  state_.stream->record(*state_.events[index]);
}

void DeviceRun::wait_for(const plan::Step& step) {
  if (step.awaited < 0) return;
  const backends::Event& event = *state_.events[static_cast<std::size_t>(step.awaited)];
  if (!event.done()) {
    const WithoutCore without_core(control_);
    event.wait();
  } else {
    event.wait();  // for what failed
  }
}

bool DeviceRun::replays() const {
  return control_.capture && control_.timings == nullptr && state_.has_run && device_.can_capture();
}

void DeviceRun::replay(const std::function<void()>& enqueue) {
  if (state_.recording == nullptr || state_.recorded_seed != resources_.seed) {
    state_.recording.reset();
    state_.stream->begin_capture();
    try {
      enqueue();
    } catch (...) {
      state_.stream->end_capture();
      throw;
    }
    state_.recording = state_.stream->end_capture();
    state_.recorded_seed = resources_.seed;
  }
  state_.recording->replay(*state_.stream);
}

void DeviceRun::begin_timing() {
  timed_.push_back({record(), nullptr, 0});
}

void DeviceRun::end_timing(std::size_t timing) {
  timed_.back().end = record();
  timed_.back().timing = timing;
}

void DeviceRun::synchronise() {
  const WithoutCore without_core(control_);
  state_.stream->synchronise();
}

void DeviceRun::finish() {
  synchronise();
  for (const Timed& timed : timed_) {
    if (timed.end == nullptr) continue;
    StepTiming& timing = (*control_.timings)[timed.timing];
    timing.start_ns = origin_ns_ - control_.start_ns + timed.begin->time_ns() - origin_->time_ns();
    timing.duration_ns = timed.end->time_ns() - timed.begin->time_ns();
  }
  timed_.clear();
  kept_.clear();
  waits_ = false;
  state_.has_run = true;
}

}  // namespace tessera::runtime
