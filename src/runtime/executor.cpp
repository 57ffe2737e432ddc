#include "runtime/executor.h"

#include "runtime/plan_run.h"

namespace tessera::runtime {
namespace {

using plan::Place;
using plan::Plan;
using plan::Slot;
using plan::Step;

// Lets the values in the arena lie in the block at `base`.
void bind_arena(const Plan& plan, RunState& state, std::byte* base) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const Slot& root = slot.place == Place::alias ? plan.slots[static_cast<std::size_t>(slot.source)] : slot;
    if (root.place == Place::arena)
      state.values[i] = Tensor(slot.type.dtype, *slot.type.shape(),
                               base != nullptr ? base + root.offset + slot.view_offset : nullptr, nullptr);
  }
  state.bound_arena = base;
}

}  // namespace

std::unique_ptr<RunState> make_run_state(const Plan& plan) {
  auto state = std::make_unique<RunState>();
  state->values.resize(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.place == Place::constant) state->values[i] = slot.constant;
    if (slot.place == Place::alias) {
      const Slot& root = plan.slots[static_cast<std::size_t>(slot.source)];
      if (root.place == Place::constant) state->values[i] = part_of(root.constant, slot);
    }
  }
  for (const Step& step : plan.steps) {
    state->first_operand.push_back(state->operands.size());
    for (std::int32_t input : step.inputs)
      state->operands.push_back(input >= 0 ? &state->values[static_cast<std::size_t>(input)] : nullptr);
  }
  bind_arena(plan, *state, nullptr);
  return state;
}

std::vector<Value> execute(PreparedPlan& prepared, RunState& state, std::span<const Value> inputs,
                           std::vector<Tensor>& variables, const ProgramEnvironment& environment, RunControl& control) {
  const Plan& plan = *prepared.plan;
  if (environment.device->computes() && plan.arena_bytes > 0) {
    state.arena = arena_blocks().take(plan.arena_bytes, environment.account, Purpose::arena, state.bound_arena);
    if (state.arena.get() != state.bound_arena) bind_arena(plan, state, state.arena.get());
  }
  std::vector<Value> outputs = PlanRun(prepared, state, environment, control).execute(inputs, variables);
  state.arena.reset();
  return outputs;
}

}  // namespace tessera::runtime
