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
  GraphMeasure measure = {};         // for reports; null: reports have no costs
  // Called before each pass with its name and the fraction of the passes that is done (0 to 1). May be null.
  std::function<void(std::string_view pass, double done)> progress = {};
  bool branches = false;  // also runs on branches of If, at any depth; a session does that when it takes a branch
};

// Every pass, in order.
std::span<const Pass> all_passes();

// Runs the passes that are not switched off on the nodes that the outputs need: after the first pass, nodes without a
// used output are gone. Throws Error(invalid_argument) for unknown names in `without`, and Error(cancelled or
// over_budget) when the context stops it. In debug builds the verifier runs after every pass. `reports`, if given,
// receives one entry per pass that ran.
ir::Graph run_pipeline(ir::Graph graph, const PassContext& context, const PipelineOptions& options = {},
                       std::vector<PassChange>* reports = nullptr);

}  // namespace tessera::passes
