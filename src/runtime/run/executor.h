// Walks a plan.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/run/device_run.h"
#include "runtime/session/program.h"

namespace tessera::runtime {

class VariableRun;

// The changing part of one run of a plan: its arena and the values in its slots. Used again by later runs; the arena is
// only borrowed for each.
struct RunState {
  std::shared_ptr<std::byte> arena;
  std::byte* bound_arena = nullptr;        // where the values in the arena lie
  std::vector<Value> values;               // by slot
  std::vector<const Value*> operands;      // inputs of all steps in a row; null for an absent one
  std::vector<std::size_t> first_operand;  // by step
  std::unique_ptr<DeviceRunState> device;  // of a plan that uses a device; made by the first run
};

std::unique_ptr<RunState> make_run_state(const plan::Plan& plan);

// Runs every step and returns the outputs. `variables`: what the run sees of the plan's variables, finished when it
// updates them; null for a plan without.
std::vector<Value> execute(PreparedPlan& prepared, RunState& state, std::span<const Value> inputs,
                           VariableRun* variables, const ProgramEnvironment& environment, RunControl& control);

}  // namespace tessera::runtime
