// A training as a page.
#pragma once

#include <string>
#include <vector>

#include "tessera/session.h"
#include "tessera/train.h"

namespace tessera::report {

struct TrainingRecord {
  std::string title;
  TrainingConfig config;
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
  std::vector<StepTiming> timings;  // the operators of one step; may be empty
  TrainingResult result;
};

// Loss, metric, learning rate and throughput over the steps, and what one step spends its time on.
std::string training_page(const TrainingRecord& record);

}  // namespace tessera::report
