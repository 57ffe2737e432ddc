// The gate between two steps of a run: the place where a more important job may go first.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/export.h"

namespace tessera {

struct StepInfo {
  std::int64_t index = 0;
  std::string_view op;    // lives as long as the call
  double operations = 0;  // predicted work of the step
  double bytes = 0;
};

// Given to runs by RunOptions::gate. Shared by the runs of a job; called from the thread of each run.
class TESSERA_API StepGate {
 public:
  virtual ~StepGate() = default;
  // Asked before every step; must be quick and must not block.
  virtual bool may_pass(const StepInfo& step) = 0;
  // Called after may_pass said no, with the run's core given up; returns when it may be worth asking again.
  virtual void wait(const StepInfo& step) = 0;
};

}  // namespace tessera
