// The order of passes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace tessera::passes {

struct PassReport {
  std::string_view pass;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
};

struct PipelineOptions {
  std::vector<std::string> without;  // names of passes to skip
};

// Every pass, in order.
std::span<const Pass> all_passes();

// Runs the passes that are not switched off; unknown names in `without` throw Error(invalid_argument). In debug builds the
// verifier runs after every pass. `reports`, if given, receives one entry a pass that ran.
ir::Graph run_pipeline(ir::Graph graph, const PassContext& context, const PipelineOptions& options = {}, std::vector<PassReport>* reports = nullptr);

}  // namespace tessera::passes
