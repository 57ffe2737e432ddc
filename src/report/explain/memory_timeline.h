// The bytes of a plan's arena that are in use at each step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera::report {

struct MemoryTimeline {
  std::vector<std::int64_t> live_bytes;  // one per step: values that are still needed, and scratch
  std::vector<std::string> step_names;   // one per step: the name of the node, or else of its operator
  std::int64_t arena_bytes = 0;
  std::int64_t weight_bytes = 0;  // constants and variables, outside of the arena
};

MemoryTimeline memory_timeline(const plan::Plan& plan);

// The bytes that stay in memory from run to run: constants, and variables, which in a training step are the weights and
// the optimiser's state.
std::int64_t kept_bytes(const plan::Plan& plan);

// Multiplies all bytes by the factor, for values of another width.
void scale(MemoryTimeline& timeline, double factor);

}  // namespace tessera::report
