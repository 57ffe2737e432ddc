// A job of a trace from real runs: what its steps took on this machine, and what memory it holds.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/session.h"

namespace tessera::share {

struct RecordOptions {
  std::string name;
  Priority priority = Priority::standard;
  double goal_ms = 0;  // 0: none
  double rate = 0;     // of requests a second, as a Poisson process; 0: one after the other
  std::int64_t requests = 100;
  int runs = 20;  // that are measured; each step takes the median of them
};

// The table [job.NAME] of a trace (docs/sharing.md), as TOML text. Throws Error as Session::run does, and
// invalid_argument for options that make no sense.
std::string record_job(Session& session, const NamedValues& inputs, const RecordOptions& options,
                       RunOptions run_options = {});

}  // namespace tessera::share
