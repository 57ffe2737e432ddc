// The gate between two steps of a plan: the place where a more important job may go first.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::runtime {

struct StepInfo {
  std::int64_t index = 0;
  std::string_view op;
  double operations = 0;  // predicted work of the step
  double bytes = 0;
};

// Shared by the runs of a job; called from the thread of each run.
class StepGate {
 public:
  virtual ~StepGate() = default;
  // Asked before every step; must be quick and must not block.
  virtual bool may_pass(const StepInfo& step) = 0;
  // Called after may_pass said no, with the run's core given up; returns when it may be worth asking again.
  virtual void wait(const StepInfo& step) = 0;
};

}  // namespace tessera::runtime
