// The state that one run carries through all of its programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/threads/thread_pool.h"
#include "lease/attachment.h"
#include "tessera/session.h"

namespace tessera::runtime {

class RunArenas;

struct RunControl {
  backends::ExecutionResources resources;
  lease::ProcessRun* process_run = nullptr;  // asked before the gate; null: as in a process that is no job
  StepGate* gate = nullptr;
  RunArenas* arenas = nullptr;  // null: nobody but the session is charged for the run's arenas
  std::vector<StepTiming>* timings = nullptr;
  std::span<const Tensor> bound = {};  // of the session's own program: memory for each output, or no tensor
  Priority priority = Priority::standard;
  Clock* clock = &Clock::steady();  // what limits, timings and turns count in
  // The run's core. Given up while the run waits: for a gate, for a plan that is being made, for other runs' turns.
  std::optional<base::ThreadPool::CoreLease> lease;
  std::int64_t start_ns = 0;                   // of the run, on the clock
  bool capture = false;                        // see RunOptions::capture
  int depth = 0;                               // of nested subgraphs
  std::int64_t max_growing_bytes = INT64_MAX;  // of the results of a Loop; see growth_budget.h
};

// While it lives, the run holds no core, so it may wait or do what takes long and is no computing of the run's. A run
// that is to wait for anything but a core does so under one of these.
class WithoutCore {
 public:
  explicit WithoutCore(RunControl& control) : control_(control) {
    if (control_.lease) control_.lease->release();
  }
  ~WithoutCore() {
    if (control_.lease) control_.lease->acquire();
  }
  WithoutCore(const WithoutCore&) = delete;
  WithoutCore& operator=(const WithoutCore&) = delete;

 private:
  RunControl& control_;
};

}  // namespace tessera::runtime
