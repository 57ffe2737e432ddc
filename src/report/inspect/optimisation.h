// Reports what the optimiser changed in a model and what that gains.
#pragma once

#include <string>
#include <vector>

#include "report/inspect/output_difference.h"
#include "tessera/optimise.h"

namespace tessera::report {

struct Optimisation {
  std::string model, output;  // as the user named them
  std::string device;         // for which times are predicted
  bool measured = true;       // false if the device's profile is a rough one
  OptimiseReport report;
  std::int64_t model_bytes = 0;  // of the original file; 0 if not known
  std::string verified_against;  // empty: nothing was run. Otherwise what the written file was compared with, on the
                                 // same inputs:
  std::vector<OutputDifference> differences;
};

// "resnet50 is predicted to take 12.3 ms instead of 18.1 ms a run (-32%)".
std::string headline(const Optimisation& optimisation);
// For a terminal: a table of the passes that changed something, and what was written.
std::string optimisation_text(const Optimisation& optimisation);
std::string optimisation_json(const Optimisation& optimisation);
// A self-contained HTML page.
std::string optimisation_html(const Optimisation& optimisation);

}  // namespace tessera::report
