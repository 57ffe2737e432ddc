#include <algorithm>

#include "base/no_memory.h"
#include "runtime/run/plan_run.h"

namespace tessera::runtime {

using plan::Place;
using plan::Step;

void PlanRun::begin(std::size_t index, backends::KernelContext& context) {
  const Step& step = plan_.steps[index];
  Pending pending{.step = index};
  for (const std::int32_t input : step.inputs) {
    if (input >= 0 && slot(input).place != Place::arena) pending.operands.push_back(value(input));
  }
  pending_.reserve(pending_.size() + 1);  // what is begun must not be lost
  pending.work = static_cast<const backends::AsynchronousKernel&>(*step.kernel).begin(context);
  pending_.push_back(std::move(pending));
}

void PlanRun::await_steps_of(const Step& step) {
  // Programs within a control step may give the memory of this one away.
  if (step.kind == plan::StepKind::control && control_.arenas != nullptr) return await_all();
  for (const std::int32_t awaited : step.awaited_steps) {
    const auto found = std::ranges::find(pending_, static_cast<std::size_t>(awaited), &Pending::step);
    if (found == pending_.end()) continue;
    Pending pending = std::move(*found);
    pending_.erase(found);
    await(std::move(pending));
  }
}

void PlanRun::await_all() {
  while (!pending_.empty()) {
    Pending pending = std::move(pending_.front());
    pending_.erase(pending_.begin());
    await(std::move(pending));
  }
}

void PlanRun::await(Pending pending) {
  const Step& step = plan_.steps[pending.step];
  try {
    base::with_memory_errors([&] {
      if (pending.work->wait_for(std::chrono::nanoseconds(0))) return;
      const WithoutCore without_core(control_);
      while (!pending.work->wait_for(backends::kPendingPatience)) control_.resources.check_stop();
    });
  } catch (Error& error) {
    add_damage(error);
    error.add_context(plan::describe(plan_, step));
    throw;
  }
  if (pending.timing == SIZE_MAX) return;
  StepTiming& timing = (*control_.timings)[pending.timing];
  timing.duration_ns = control_.clock->now_ns() - control_.start_ns - timing.start_ns;
}

}  // namespace tessera::runtime
