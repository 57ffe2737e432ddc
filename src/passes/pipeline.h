// The order of passes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "tessera/pass_change.h"

namespace tessera::passes {

struct PipelineOptions {
  std::vector<std::string> without;  // names of passes to skip
  GraphMeasure measure = {};         // for reports; null: they say no costs
  // Called before each pass with its name and the part of the passes that is done (0 to 1). Null: nobody is told.
  std::function<void(std::string_view pass, double done)> progress = {};
  bool branches = false;  // those of If too, at any depth; a session does them when it takes them
};

// Every pass, in order.
std::span<const Pass> all_passes();

// Runs the passes that are not switched off, on what the outputs need: none but the first sees a node none of whose
// outputs is wanted. Unknown names in `without` throw Error(invalid_argument), a stop of the context Error(cancelled or
// over_budget). In debug builds the verifier runs after
// every pass. `reports`, if given, receives one entry a pass that ran.
ir::Graph run_pipeline(ir::Graph graph, const PassContext& context, const PipelineOptions& options = {},
                       std::vector<PassChange>* reports = nullptr);

}  // namespace tessera::passes
