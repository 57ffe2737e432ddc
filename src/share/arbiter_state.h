// The state that the jobs of one arbiter share.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cost/machine.h"
#include "cost/predictor.h"
#include "share/memory_ledger.h"
#include "share/scheduler.h"

namespace tessera::share {

struct ArbiterState {
  explicit ArbiterState(const ArbiterOptions& options);

  std::string policy;
  Clock* clock;
  const cost::Machine machine;  // what steps are expected to take before any is measured
  const std::string spill_folder;
  MemoryLedger memory;
  std::mutex mutex;
  Scheduler scheduler;  // with the mutex held
};

}  // namespace tessera::share
