// Traces of real runs in the Trace Event Format, which Perfetto and chrome://tracing open.
// Format: "Trace Event Format", Google, 2016 (complete events, ph "X", times in microseconds).
#pragma once

#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera::report {

// One slice a step, with kernel, shapes, operations and bytes as arguments; steps inside subgraphs lie below theirs.
std::string trace_json(const std::vector<StepTiming>& timings, const std::string& model_name);

}  // namespace tessera::report
