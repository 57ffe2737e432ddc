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
  state->stream = environment.device->make_stream();
  return state;
}

DeviceRun::DeviceRun(const ProgramEnvironment& environment, const plan::Plan& plan, DeviceRunState& state,
                     RunControl& control)
    : device_(*environment.device),
      state_(state),
      control_(control),
      resources_(control.resources),
      copies_(device_, environment.staging) {
  environment.device_copies->release_staging();  // of constants that came while the run before computed
  resources_.stream = state.stream.get();
  resources_.stop = nullptr;  // work that is enqueued may outlive the run in a recording
  if (plan.draws_on_device) {
    copy(cell(kSeedCell), &resources_.seed, sizeof resources_.seed);
    resources_.seed_cell = reinterpret_cast<const std::uint64_t*>(cell(kSeedCell));
  }
  if (plan.first_writing_step != SIZE_MAX) state.stream->fill(cell(kMarkCell), std::byte{0}, kMarkBytes);
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

void DeviceRun::copy(void* to, const void* from, std::int64_t bytes, std::size_t step) {
  if (bytes == 0) return;
  if (!is_on_device(to)) copies_.to_host(*state_.stream, step, to, from, bytes);
  else if (is_on_device(from)) state_.stream->copy_within(to, from, bytes);
  else copies_.to_device(*state_.stream, to, from, bytes);
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
  copies_.deliver(*state_.stream, static_cast<std::size_t>(step.awaited));
  move_arrivals(static_cast<std::size_t>(step.awaited));
}

void DeviceRun::move_arrivals(std::size_t last) {
  std::erase_if(arrivals_, [&](Arrival& arrival) {
    if (arrival.index > last) return false;
    std::memcpy(arrival.to.mutable_raw(), staging(*arrival.copy), static_cast<std::size_t>(arrival.to.bytes()));
    return true;
  });
}

void DeviceRun::wait_for_constants(const DeviceConstants& constants, std::size_t step) {
  for (; state_.awaited_groups < constants.groups[step]; ++state_.awaited_groups) {
    for (const std::shared_ptr<const backends::Event>& arrived : constants.arrived[state_.awaited_groups])
      state_.stream->wait(*arrived);
  }
}

bool DeviceRun::replays() const {
  return control_.capture && control_.timings == nullptr && state_.has_run && state_.staging != nullptr &&
         device_.can_capture();
}

void DeviceRun::replay(std::size_t segment, std::vector<const void*> addresses, const std::function<void()>& enqueue) {
  DeviceRunState::Recorded& recorded = state_.recorded[segment];
  if (recorded.recording == nullptr || recorded.addresses != addresses) {
    state_.stream->begin_capture();
    try {
      enqueue();
    } catch (...) {
      state_.stream->abandon_capture();
      throw;
    }
    recorded.recording = state_.stream->end_capture(std::move(recorded.recording));
    recorded.addresses = std::move(addresses);
  }
  recorded.recording->replay(*state_.stream);
}

void DeviceRun::mark_writing() {
  state_.stream->fill(cell(kMarkCell), std::byte{1}, kMarkBytes);
}

bool DeviceRun::has_begun_writing() noexcept {
  try {
    state_.stream->synchronise();
  } catch (const std::exception&) {
    // The failure that the caller asks about.
  }
  try {
    std::array<std::byte, kMarkBytes> mark{};
    state_.stream->copy_to_host(mark.data(), cell(kMarkCell), kMarkBytes);
    state_.stream->synchronise();
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
    state_.stream->synchronise();
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
