#include "runtime/run/device_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "backends/device_copies.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/session/program.h"

namespace tessera::runtime {

using backends::MemorySpace;

namespace {

// Places in DeviceRunState::cells.
constexpr std::int64_t kSeedCell = 0, kMarkCell = 8, kMarkBytes = 8, kCellBytes = 64;

// Whether the step's kernel reads a packing in place of the constant.
bool reads_packed(const plan::Step& step, const Tensor& constant) {
  return std::ranges::any_of(step.packings,
                             [&](const plan::UsedPacking& packing) { return packing.storage == constant.storage(); });
}

// Slots of constants on the device, by the step that is the first to read them; those that no step reads come last, and
// those that kernels read in packed form alone are left out.
std::vector<std::vector<std::size_t>> constants_by_step(const plan::Plan& plan) {
  std::vector<bool> known(plan.slots.size(), false), packed(plan.slots.size(), false);
  std::vector<std::vector<std::size_t>> slots(plan.steps.size() + 1);
  const auto add = [&](std::size_t root, std::size_t step) {
    const plan::Slot& slot = plan.slots[root];
    if (known[root] || slot.place != plan::Place::constant || slot.space != MemorySpace::device ||
        slot.constant.bytes() == 0)
      return;
    known[root] = true;
    slots[step].push_back(root);
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const std::int32_t input : plan.steps[i].inputs) {
      if (input < 0) continue;
      const plan::Slot& slot = plan.slots[static_cast<std::size_t>(input)];
      const auto root = static_cast<std::size_t>(slot.place == plan::Place::alias ? slot.source : input);
      if (reads_packed(plan.steps[i], plan.slots[root].constant)) packed[root] = true;
      else add(root, i);
    }
  }
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    if (!packed[slot]) add(slot, plan.steps.size());
  }
  return slots;
}

}  // namespace

DeviceConstants device_constants(const plan::Plan& plan, const ProgramEnvironment& environment) {
  DeviceConstants constants;
  if (!plan.uses_device) return constants;
  constants.addresses.resize(plan.slots.size());
  const std::vector<std::vector<std::size_t>> slots = constants_by_step(plan);
  std::vector<std::vector<Tensor>> groups;
  std::vector<std::vector<std::size_t>> group_slots;
  for (const std::vector<std::size_t>& of_step : slots) {
    std::vector<Tensor> group;
    std::vector<std::size_t> in_group;
    for (const std::size_t slot : of_step) {
      const Tensor& constant = plan.slots[slot].constant;
      if (constant.is_deferred()) {  // its elements are there for the copy alone
        constants.addresses[slot] = environment.device_copies->find_or_copy(constant);
        continue;
      }
      if (environment.package != nullptr && environment.package->stream != nullptr)
        environment.package->stream->need(constant.raw(), constant.bytes());
      group.push_back(constant);
      in_group.push_back(slot);
    }
    if (!group.empty()) {
      groups.push_back(std::move(group));
      group_slots.push_back(std::move(in_group));
    }
    constants.groups.push_back(groups.size());
  }
  const std::vector<std::vector<backends::DeviceCopy>> copies = environment.device_copies->find_or_begin(groups);
  constants.arrived.resize(groups.size());
  for (std::size_t g = 0; g < copies.size(); ++g) {
    for (std::size_t i = 0; i < copies[g].size(); ++i) {
      const auto& [address, arrived] = copies[g][i];
      constants.addresses[group_slots[g][i]] = address;
      const bool known =
          arrived == nullptr || std::ranges::find(constants.arrived[g], arrived) != constants.arrived[g].end();
      if (!known) constants.arrived[g].push_back(arrived);
    }
  }
  return constants;
}

std::unique_ptr<DeviceRunState> make_device_state(const plan::Plan& plan, const ProgramEnvironment& environment) {
  auto state = std::make_unique<DeviceRunState>();
  if (plan.draws_on_device || plan.first_writing_step != SIZE_MAX)
    state->cells =
        allocate_on({environment.device, environment.device_account}, Purpose::plans, DType::u8, {kCellBytes});
  state->recorded.resize(plan.segments.size());
  const auto streams = static_cast<std::size_t>(plan.streams);
  state->awaited_groups.resize(streams, 0);
  for (std::size_t i = 0; i < streams; ++i) state->streams.push_back(environment.device->make_stream());
  if (streams < 2) return state;
  state->fork = environment.device->make_event();
  for (std::size_t i = 0; i < streams; ++i) state->ends.push_back(environment.device->make_event());
  state->step_events.resize(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].is_stream_awaited) state->step_events[i] = environment.device->make_event();
  }
  return state;
}

DeviceRun::DeviceRun(const ProgramEnvironment& environment, const plan::Plan& plan, DeviceRunState& state,
                     RunControl& control)
    : device_(*environment.device),
      plan_(plan),
      state_(state),
      control_(control),
      resources_(control.resources),
      copies_(device_, environment.staging),
      is_open_(state.streams.size(), false) {
  environment.device_copies->release_staging();  // of constants that came while the run before computed
  resources_.stream = &stream();
  resources_.stop = nullptr;  // work that is enqueued may outlive the run in a recording
  if (plan.draws_on_device) {
    copy(cell(kSeedCell), &resources_.seed, sizeof resources_.seed);
    resources_.seed_cell = reinterpret_cast<const std::uint64_t*>(cell(kSeedCell));
  }
  if (plan.first_writing_step != SIZE_MAX) stream().fill(cell(kMarkCell), std::byte{0}, kMarkBytes);
  fork();
  if (control.timings == nullptr) return;
  origin_ = record();
  origin_ns_ = control.clock->now_ns();
}

DeviceRun::~DeviceRun() {
  // The error that ended the run came before those of the streams.
  if (waits_) wait_for_streams();
}

std::exception_ptr DeviceRun::wait_for_streams() {
  std::exception_ptr failure;
  for (const std::unique_ptr<backends::Stream>& each : state_.streams) {
    try {
      each->synchronise();
    } catch (const std::exception&) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  return failure;
}

void DeviceRun::take_turn(std::size_t stream_index) {
  turn_ = stream_index;
  resources_.stream = &stream();
  is_open_[turn_] = true;
  if (turn_ == 0 || follows_[turn_]) return;
  stream().wait(*state_.fork);
  follows_[turn_] = true;
}

void DeviceRun::fork() {
  follows_.assign(state_.streams.size(), false);
  if (state_.fork != nullptr) state_.streams[0]->record(*state_.fork);
}

void DeviceRun::join() {
  for (std::size_t i = 1; i < state_.streams.size(); ++i) {
    if (!is_open_[i]) continue;
    state_.streams[i]->record(*state_.ends[i]);
    state_.streams[0]->wait(*state_.ends[i]);
    is_open_[i] = false;
  }
}

void DeviceRun::begin_step(std::size_t index, const DeviceConstants& constants) {
  const plan::Step& step = plan_.steps[index];
  take_turn(static_cast<std::size_t>(step.stream));
  for (const std::int32_t earlier : step.stream_waits) {
    if (static_cast<std::size_t>(earlier) >= settled_)
      stream().wait(*state_.step_events[static_cast<std::size_t>(earlier)]);
  }
  if (step.kind != plan::StepKind::copy) wait_for_constants(constants, index);
}

void DeviceRun::end_step(std::size_t index) {
  if (plan_.steps[index].is_stream_awaited) stream().record(*state_.step_events[index]);
}

std::unique_ptr<backends::Event> DeviceRun::record() {
  std::unique_ptr<backends::Event> event = device_.make_event();
  stream().record(*event);
  return event;
}

void DeviceRun::copy(void* to, const void* from, std::int64_t bytes, std::size_t step) {
  if (bytes == 0) return;
  backends::Stream& on = step == SIZE_MAX ? *state_.streams[0] : stream();
  if (!is_on_device(to)) copies_.to_host(on, step, to, from, bytes);
  else if (is_on_device(from)) on.copy_within(to, from, bytes);
  else copies_.to_device(on, to, from, bytes);
}

void DeviceRun::mark(const plan::Step& step, std::size_t index) {
  if (!step.is_awaited) return;
  if (state_.events.size() <= index) state_.events.resize(index + 1);
  if (state_.events[index] == nullptr) state_.events[index] = device_.make_event();
  stream().record(*state_.events[index]);
}

void DeviceRun::wait_for(const plan::Step& step) {
  for (const std::int32_t awaited : step.awaited_copies) {
    const auto index = static_cast<std::size_t>(awaited);
    const backends::Event& event = *state_.events[index];
    if (!event.done()) {
      const WithoutCore without_core(control_);
      event.wait();
    } else {
      event.wait();  // for what failed
    }
    const plan::Step& copy = plan_.steps[index];
    if (copy.space == MemorySpace::device) continue;
    copies_.deliver(*state_.streams[static_cast<std::size_t>(copy.stream)], index);
    move_arrivals(index);
  }
}

void DeviceRun::move_arrivals(std::size_t last) {
  std::erase_if(arrivals_, [&](Arrival& arrival) {
    if (arrival.index > last) return false;
    std::memcpy(arrival.to.mutable_raw(), staging(*arrival.copy), static_cast<std::size_t>(arrival.to.bytes()));
    return true;
  });
}

void DeviceRun::wait_for_constants(const DeviceConstants& constants, std::size_t step) {
  for (std::size_t& group = state_.awaited_groups[turn_]; group < constants.groups[step]; ++group) {
    for (const std::shared_ptr<const backends::Event>& arrived : constants.arrived[group]) stream().wait(*arrived);
  }
}

bool DeviceRun::replays() const {
  return control_.capture && control_.timings == nullptr && state_.has_run && state_.staging != nullptr &&
         device_.can_capture();
}

void DeviceRun::replay(std::size_t segment, const DeviceConstants& constants, std::vector<const void*> addresses,
                       const std::function<void()>& enqueue) {
  DeviceRunState::Recorded& recorded = state_.recorded[segment];
  const auto [first, end] = plan_.segments[segment];
  join();
  take_turn(0);
  wait_for_constants(constants, end - 1);
  std::ranges::fill(state_.awaited_groups, state_.awaited_groups[0]);  // the others follow stream 0
  if (recorded.recording == nullptr || recorded.addresses != addresses) {
    stream().begin_capture();
    try {
      settled_ = first;
      fork();
      enqueue();
      join();
    } catch (...) {
      state_.streams[0]->abandon_capture();
      throw;
    }
    recorded.recording = state_.streams[0]->end_capture(std::move(recorded.recording));
    recorded.addresses = std::move(addresses);
  }
  take_turn(0);
  recorded.recording->replay(stream());
  settled_ = end;
  fork();
}

void DeviceRun::mark_writing() {
  join();
  state_.streams[0]->fill(cell(kMarkCell), std::byte{1}, kMarkBytes);
}

bool DeviceRun::has_begun_writing() noexcept {
  wait_for_streams();  // for the failure that the caller asks about
  try {
    std::array<std::byte, kMarkBytes> mark{};
    state_.streams[0]->copy_to_host(mark.data(), cell(kMarkCell), kMarkBytes);
    state_.streams[0]->synchronise();
    return mark[0] != std::byte{0};
  } catch (const std::exception&) {
    return true;  // nobody can tell any more
  }
}

void DeviceRun::begin_timing() {
  timed_.push_back({record(), nullptr, 0});
}

void DeviceRun::end_timing(std::size_t timing) {
  timed_.back().end = record();
  timed_.back().timing = timing;
}

void DeviceRun::synchronise() {
  {
    const WithoutCore without_core(control_);
    if (const std::exception_ptr failure = wait_for_streams()) std::rethrow_exception(failure);
  }
  copies_.deliver_all();
  move_arrivals(SIZE_MAX);
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
