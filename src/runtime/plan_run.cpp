#include "runtime/plan_run.h"

#include <stdexcept>

#include "base/error.h"
#include "base/float_state.h"
#include "runtime/arena_access.h"

namespace tessera::runtime {

using plan::Step;
using plan::StepKind;

namespace {

// A loop may take any number of steps; nobody reads more than these.
constexpr std::size_t kMostTimings = 1'000'000;

}  // namespace

std::vector<Value> PlanRun::execute(std::span<const Value> inputs, std::vector<Tensor>& variables) {
  for (std::size_t i = 0; i < inputs.size(); ++i) value(plan_.input_slots[i]) = inputs[i];
  for (std::size_t i = 0; i < variables.size(); ++i) value(plan_.variable_slots[i]) = variables[i];
  bind_outputs(inputs);
  run_steps();
  update_variables(variables);
  std::vector<Value> outputs = collect_outputs();
  forget_run_values();
  return outputs;
}

void PlanRun::run_steps() {
  const base::FlushedDenormals flushed(environment_.device->flushes_denormals());
  const ClosedArena closed(plan_, state_.arena.get());
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    try {
      pass_gate(i);
      const StepAccess access(plan_, plan_.steps[i], state_.arena.get());
      run_step(i);
    } catch (Error& error) {
      error.add_context(ir::describe(plan_.graph, plan_.steps[i].node));
      throw;
    } catch (const std::bad_alloc&) {
      throw Error(ErrorKind::over_budget, "the system has no more memory")
          .add_context(ir::describe(plan_.graph, plan_.steps[i].node));
    } catch (const std::length_error&) {
      throw Error(ErrorKind::over_budget, "the kernel takes more memory than there can be")
          .add_context(ir::describe(plan_.graph, plan_.steps[i].node));
    }
    for (std::int32_t dying : plan_.steps[i].dying) value(dying) = {};
  }
}

void PlanRun::pass_gate(std::size_t index) {
  control_.resources.check_stop();
  if (control_.lease) control_.lease->take_turns();
  if (control_.gate == nullptr) return;
  const Step& step = plan_.steps[index];
  const StepInfo info{.index = static_cast<std::int64_t>(index),
                      .op = step.op->name,
                      .operations = step.cost.operations,
                      .bytes = step.cost.bytes_read + step.cost.bytes_written,
                      .depth = control_.depth,
                      .priority = control_.priority,
                      .clock = control_.clock};
  while (!control_.gate->may_pass(info)) {
    {
      const WithoutCore without_core(control_);  // it goes to whoever may use it meanwhile
      control_.gate->wait(info);
    }
    control_.resources.check_stop();
  }
}

void PlanRun::run_step(std::size_t index) {
  const Step& step = plan_.steps[index];
  const std::int64_t start = control_.timings != nullptr ? control_.clock->now_ns() : 0;
  if (!environment_.device->computes()) {
    pretend(step);
  } else {
    switch (step.kind) {
      case StepKind::kernel:
        run_kernel(index);
        break;
      case StepKind::alias:
        make_view(step);
        break;
      case StepKind::late:
        run_late(step);
        break;
      case StepKind::control:
        run_control(index);
        break;
    }
  }
  if (control_.timings != nullptr && control_.timings->size() < kMostTimings)
    record(step, start, control_.clock->now_ns());
}

void PlanRun::record(const Step& step, std::int64_t start, std::int64_t end) {
  StepTiming timing;
  const ir::Node& node = plan_.graph.node(step.node);
  timing.name = node.name;
  timing.op = node.op;
  timing.kernel = step.entry != nullptr            ? step.entry->name
                  : step.kind == StepKind::late    ? "late"
                  : step.kind == StepKind::control ? "control flow"
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
