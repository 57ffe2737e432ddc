// The gate between two steps of a run: the place where a scheduler of the caller's holds a run, so that a more
// important job goes first.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/clock.h"
#include "tessera/export.h"

namespace tessera {

namespace runtime {
class RunMemory;
}

// How important a run is. A run of a higher class takes cores from runs of lower classes within a step, runs of equal
// class take turns between steps.
//   background: computes while no other class needs the core.
//   standard:   computes on one core and on those that are idle.
//   realtime:   holds a core for each of its threads from its beginning to its end.
enum class Priority : std::uint8_t { background, standard, realtime };
inline constexpr int kPriorities = 3;

struct StepInfo {
  std::int64_t index = 0;  // in the plan of its graph
  std::string_view op;     // lives as long as the call
  double operations = 0;   // predicted work of the step
  double bytes = 0;
  int depth = 0;  // 0: the model's own graph; more inside If, Loop and Scan
  Priority priority = Priority::standard;
  Clock* clock = nullptr;  // never null in a call; what the run's time is read from
};

// A gate is given to runs by RunOptions::gate and shared by the runs of a job; each run calls it from its own thread.
class TESSERA_API StepGate {
 public:
  virtual ~StepGate() = default;
  // Whether the run may begin this step. Called before every step; must be quick and must not block.
  virtual bool may_pass(const StepInfo& step) = 0;
  // Called after may_pass returned false, while the run holds no core; returns when asking again may succeed. In
  // virtual time it must wait only by the clock (Clock::sleep_until, Clock::Signal).
  virtual void wait(const StepInfo& step) = 0;
  // Who is charged for the temporary memory of the runs that this gate holds. Null: their session.
  virtual runtime::RunMemory* memory() { return nullptr; }
};

}  // namespace tessera
