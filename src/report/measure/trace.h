// Traces of real runs in the Trace Event Format, which Perfetto and chrome://tracing open.
// Format: "Trace Event Format", Google, 2016 (complete events "X", counters "C" and metadata "M", times in
// microseconds).
#pragma once

#include <string>
#include <vector>

#include "base/threads/thread_spans.h"
#include "report/explain/memory_timeline.h"
#include "tessera/session.h"

namespace tessera::report {

struct RunTrace {
  std::vector<StepTiming> steps;
  std::vector<base::ThreadSpan> spans;  // those of the pool's threads in the steps' parallel loops
  std::int64_t origin_ns = 0;           // when the run began, on the clock of the spans
  MemoryTimeline memory;                // of the plan that ran
};

// Runs the session once and records what its threads did. Throws Error as Session::run does.
NamedValues traced_run(Session& session, const NamedValues& inputs, const RunOptions& options, RunTrace& trace);

// A trace with one track for the calling thread and one for each thread of the pool that took part. The calling
// thread's track has a slice for each step, with kernel, shapes, operations, bytes and the achieved rates as arguments;
// steps inside subgraphs are below theirs. The other tracks have a slice for each parallel loop in which the thread ran
// chunks. Counters show the arena's bytes in use, according to the plan, and the arena's size.
std::string trace_json(const RunTrace& trace, const std::string& model_name);

}  // namespace tessera::report
