#include "runtime/run/executor.h"

#include "runtime/memory/device_blocks.h"
#include "runtime/memory/run_arenas.h"
#include "runtime/run/plan_run.h"

namespace tessera::runtime {
namespace {

using plan::Place;
using plan::Plan;
using plan::Slot;
using plan::Step;

// Lets the values in the arena of the space lie in the block at `base`.
void bind_arena(const Plan& plan, RunState& state, backends::MemorySpace space, std::byte* base) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const Slot& root = slot.place == Place::alias ? plan.slots[static_cast<std::size_t>(slot.source)] : slot;
    if (root.place == Place::arena && slot.space == space)
      state.values[i] = Tensor(slot.type.dtype, *slot.type.shape(),
                               base != nullptr ? base + root.offset + slot.view_offset : nullptr, nullptr);
  }
  (space == backends::MemorySpace::host ? state.bound_arena : state.device->bound_arena) = base;
}

// The constants on the device, and views of them.
void bind_device_constants(const PreparedPlan& prepared, RunState& state) {
  const Plan& plan = *prepared.plan;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const std::size_t root = slot.place == Place::alias ? static_cast<std::size_t>(slot.source) : i;
    if (slot.space != backends::MemorySpace::device || plan.slots[root].place != Place::constant) continue;
    const std::shared_ptr<void>& copy = prepared.device_constants.addresses[root];
    std::byte* first = static_cast<std::byte*>(copy.get());
    state.values[i] =
        Tensor(slot.type.dtype, *slot.type.shape(), first != nullptr ? first + slot.view_offset : nullptr, copy);
  }
}

void prepare_device(const PreparedPlan& prepared, RunState& state, const ProgramEnvironment& environment) {
  const Plan& plan = *prepared.plan;
  if (state.device == nullptr) {
    state.device = make_device_state(plan, environment);
    bind_device_constants(prepared, state);
    bind_arena(plan, state, backends::MemorySpace::device, nullptr);
  }
  DeviceRunState& device = *state.device;
  if (plan.staging_bytes > 0)
    device.staging = take_staging(*environment.device, environment.account, plan.staging_bytes, device.former_staging);
  device.former_staging = device.staging.get();
  if (plan.device_arena_bytes == 0) return;
  device.arena = device_blocks(*environment.device)
                     .take(plan.device_arena_bytes, environment.device_account, Purpose::arena, device.bound_arena);
  if (device.arena.get() == device.bound_arena) return;
  bind_arena(plan, state, backends::MemorySpace::device, device.arena.get());
}

}  // namespace

std::unique_ptr<RunState> make_run_state(const Plan& plan) {
  auto state = std::make_unique<RunState>();
  state->values.resize(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.space == backends::MemorySpace::device) continue;
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
  bind_arena(plan, *state, backends::MemorySpace::host, nullptr);
  return state;
}

std::vector<Value> execute(PreparedPlan& prepared, RunState& state, std::span<const Value> inputs,
                           VariableRun* variables, const ProgramEnvironment& environment, RunControl& control) {
  const Plan& plan = *prepared.plan;
  const bool needs_arena = environment.device->computes() && plan.arena_bytes > 0;
  HeldArena held(control.arenas, control, needs_arena ? plan.arena_bytes : 0);
  if (needs_arena) {
    state.arena = arena_blocks().take(plan.arena_bytes, environment.account, Purpose::arena, state.bound_arena,
                                      control.arenas == nullptr || !control.arenas->is_of_process());
    if (state.arena.get() != state.bound_arena) bind_arena(plan, state, backends::MemorySpace::host, state.arena.get());
    held.place(state.arena.get());
  }
  if (plan.uses_device) prepare_device(prepared, state, environment);
  std::vector<Value> outputs = PlanRun(prepared, state, environment, control, variables).execute(inputs);
  state.arena.reset();
  if (!plan.uses_device) return outputs;
  state.device->arena.reset();
  state.device->staging.reset();
  return outputs;
}

}  // namespace tessera::runtime
