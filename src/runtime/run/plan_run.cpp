#include "runtime/run/plan_run.h"

#include <optional>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/numbers/float_state.h"
#include "runtime/memory/arena_access.h"
#include "runtime/memory/run_arenas.h"

namespace tessera::runtime {

using backends::MemorySpace;
using plan::Step;
using plan::StepKind;

namespace {

// A loop may take any number of steps; nobody reads more than these.
constexpr std::size_t kMostTimings = 1'000'000;

// While variables are written over, nothing stops the run; more important ones may still have its core.
class Unstoppable {
 public:
  explicit Unstoppable(backends::ExecutionResources& resources) : resources_(resources), former_(resources.stop) {
    resources_.stop = &never_;
  }
  ~Unstoppable() { resources_.stop = former_; }
  Unstoppable(const Unstoppable&) = delete;
  Unstoppable& operator=(const Unstoppable&) = delete;

 private:
  backends::ExecutionResources& resources_;
  const base::StopSignal* former_;
  const base::StopSignal never_{nullptr, {}};
};

}  // namespace

std::vector<Value> PlanRun::execute(std::span<const Value> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) value(plan_.input_slots[i]) = inputs[i];
  for (std::size_t i = 0; i < plan_.variable_slots.size(); ++i)
    value(plan_.variable_slots[i]) = is_on_device(i) ? variables_->value_on(device_space(), i) : variables_->value(i);
  if (plan_.uses_device) device_ = std::make_unique<DeviceRun>(environment_, plan_, *state_.device, control_);
  if (device_ != nullptr) bring_inputs_to_host();
  bind_outputs(inputs);
  if (prepared_.arrival != nullptr && !prepared_.arrival->is_complete()) arrival_ = prepared_.arrival.get();
  run_steps();
  if (arrival_ != nullptr) arrival_->wait_for_rest(control_);
  if (device_ != nullptr) finish_device();
  if (updates_variables()) take_updates(writing_ && takes_early());
  std::vector<Value> outputs;
  try {
    outputs = collected_ ? std::move(*collected_) : collect_outputs(true);
  } catch (...) {
    if (writing_) variables_->finish();  // all variables have their next values, so these become the state
    throw;
  }
  forget_run_values();
  if (updates_variables()) variables_->finish();
  return outputs;
}

void PlanRun::run_steps() {
  const base::FlushedDenormals flushed(environment_.host->flushes_denormals());
  // A queue or an asynchronous step may touch the arena at any time.
  const std::byte* watched = plan_.uses_device || plan_.has_asynchronous ? nullptr : state_.arena.get();
  const ClosedArena closed(plan_, watched);
  const bool replays = device_ != nullptr && device_->replays();
  std::size_t segment = 0;
  std::optional<Unstoppable> unstoppable;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const bool is_replayed = replays && segment < plan_.segments.size() && plan_.segments[segment].first == i;
    const std::size_t end = is_replayed ? plan_.segments[segment].end : i + 1;
    for (std::size_t k = i; k < end && !pending_.empty(); ++k) await_steps_of(plan_.steps[k]);
    try {
      if (!writing_) pass_gate(i);
      if (arrival_ != nullptr) arrival_->wait_for_step(i, control_);
      if (i <= plan_.first_writing_step && plan_.first_writing_step < end && updates_variables()) {
        if (arrival_ != nullptr) arrival_->wait_for_all(control_);
        if (device_ != nullptr && plan_.settles_before_writing) device_->synchronise();
        begin_writing();
        unstoppable.emplace(control_.resources);
        if (device_ != nullptr && !is_replayed) device_->mark_writing();
      }
      const StepAccess access(plan_, plan_.steps[i], watched);
      base::with_memory_errors([&] { is_replayed ? replay_segment(segment++) : run_step(i); });
    } catch (Error& error) {
      add_damage(error);
      error.add_context(plan::describe(plan_, plan_.steps[i]));
      throw;
    }
    for (; i + 1 < end; ++i) forget_dying(plan_.steps[i]);
    forget_dying(plan_.steps[i]);
  }
  await_all();
}

void PlanRun::forget_dying(const Step& step) {
  for (const std::int32_t dying : step.dying) value(dying) = {};
}

void PlanRun::finish_device() {
  try {
    device_->finish();
  } catch (Error& error) {
    add_damage(error);
    throw;
  }
}

void PlanRun::pass_gate(std::size_t index) {
  control_.resources.check_stop();
  if (control_.lease) control_.lease->take_turns();
  if (control_.gate == nullptr && control_.process_run == nullptr) return;
  const Step& step = plan_.steps[index];
  const StepInfo info{.index = static_cast<std::int64_t>(index),
                      .op = step.op != nullptr ? step.op->name : "copy",
                      .operations = step.cost.operations,
                      .bytes = step.cost.bytes_read + step.cost.bytes_written,
                      .depth = control_.depth,
                      .priority = control_.priority,
                      .clock = control_.clock};
  // Others may want the run's memory at once, or while it waits for its turn.
  const auto give_memory = [&] {
    if (control_.arenas == nullptr) return;
    if (control_.arenas->is_wanted()) await_all();
    control_.arenas->give_way(control_, plan_, index);
  };
  give_memory();
  while (control_.process_run != nullptr && !control_.process_run->may_pass(info)) {
    {
      const WithoutCore without_core(control_);
      control_.process_run->wait();
    }
    control_.resources.check_stop();
    give_memory();
  }
  while (control_.gate != nullptr && !control_.gate->may_pass(info)) {
    {
      const WithoutCore without_core(control_);  // it goes to whoever may use it meanwhile
      control_.gate->wait(info);
    }
    control_.resources.check_stop();
    give_memory();
  }
}

void PlanRun::run_step(std::size_t index) {
  const Step& step = plan_.steps[index];
  const std::int64_t start = control_.timings != nullptr ? control_.clock->now_ns() : 0;
  if (!environment_.device->computes()) {
    pretend(step);
  } else {
    if (device_ != nullptr) {
      device_->wait_for(step);
      if (is_enqueued(step)) device_->begin_step(index, prepared_.device_constants);
      if (control_.timings != nullptr && is_enqueued(step)) device_->begin_timing();
    }
    switch (step.kind) {
      case StepKind::kernel:
        if (step.space == MemorySpace::host) {
          run_kernel(index);
        } else {
          provide_storage(step);
          enqueue_kernel(index);
        }
        break;
      case StepKind::copy:
        run_copy(index);
        break;
      case StepKind::alias:
        make_view(step);
        break;
      case StepKind::late:
        run_late(index);
        break;
      case StepKind::control:
        run_control(index);
        break;
    }
    if (is_enqueued(step)) device_->end_step(index);
  }
  if (control_.timings != nullptr && control_.timings->size() < kMostTimings) {
    record(step, start, control_.clock->now_ns());
    if (is_enqueued(step)) device_->end_timing(control_.timings->size() - 1);
    if (!pending_.empty() && pending_.back().step == index) pending_.back().timing = control_.timings->size() - 1;
  }
}

// Such a step takes its time when its turn comes.
bool PlanRun::is_enqueued(const Step& step) const {
  return step.kind == StepKind::copy || step.space == MemorySpace::device;
}

void PlanRun::record(const Step& step, std::int64_t start, std::int64_t end) {
  StepTiming timing;
  if (step.kind == StepKind::copy) {
    timing.name = plan_.graph.value(slot(step.inputs[0]).value).name;
    timing.op = "copy";
  } else {
    const ir::Node& node = plan_.graph.node(step.node);
    timing.name = node.name;
    timing.op = node.op;
  }
  timing.kernel = step.entry != nullptr            ? step.entry->name
                  : step.kind == StepKind::late    ? "late"
                  : step.kind == StepKind::control ? "control flow"
                  : step.kind == StepKind::copy    ? (step.space == MemorySpace::device ? "to device" : "to host")
                                                   : "view";
  for (std::int32_t input : step.inputs) timing.shapes += (input >= 0 ? ir::to_string(slot(input).type) : "none") + " ";
  timing.shapes += "->";
  for (const ir::ValueType& type : step.output_types) timing.shapes += " " + ir::to_string(type);
  timing.start_ns = start - control_.start_ns;
  timing.duration_ns = end - start;
  timing.operations = step.cost.operations;
  timing.bytes = step.cost.bytes_read + step.cost.bytes_written;
  timing.depth = control_.depth;
  control_.timings->push_back(std::move(timing));
}

}  // namespace tessera::runtime
