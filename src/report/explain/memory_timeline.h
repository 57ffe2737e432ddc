// How much of a plan's arena is in use at each step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera::report {

struct MemoryTimeline {
  std::vector<std::int64_t> live_bytes;  // one a step: values that are still needed, and scratch
  std::vector<std::string> step_names;   // one a step: the node's name, or its operator's
  std::int64_t arena_bytes = 0;
  std::int64_t weight_bytes = 0;  // constants and variables, beside the arena
};

MemoryTimeline memory_timeline(const plan::Plan& plan);

// The bytes that lie in memory from run to run: constants, and variables, which are a training step's weights and what
// its optimiser keeps of them.
std::int64_t kept_bytes(const plan::Plan& plan);

// Multiplies all bytes by the factor, as values of another width take so many times as much.
void scale(MemoryTimeline& timeline, double factor);

}  // namespace tessera::report
