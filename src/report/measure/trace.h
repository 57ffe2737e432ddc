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
  std::vector<base::ThreadSpan> spans;  // of the threads in the steps' parallel loops
  std::int64_t origin_ns = 0;           // when the run began, on the clock of the spans
  MemoryTimeline memory;                // of the plan that ran
};

// Runs the session once and writes down what its threads did. Throws Error as Session::run does.
NamedValues traced_run(Session& session, const NamedValues& inputs, const RunOptions& options, RunTrace& trace);

// One track for the calling thread and one for each thread of the pool that took part. The first has a slice for each
// step, with kernel, shapes, operations, bytes and the rates that it reached as arguments, and steps inside subgraphs
// below theirs; the others have a slice for each parallel loop of which they ran a part. Counters show the bytes of the
// arena in use, as the plan has them, and the size of the arena.
std::string trace_json(const RunTrace& trace, const std::string& model_name);

}  // namespace tessera::report
