// Shows the progress of a training: a bar on a terminal, or else one line per evaluation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tessera/train.h"

namespace tessera::apps {

// "; 300 could not be read, such as table.csv line 7: …", or "" if all could be read.
std::string skipped_text(const EvaluationReport& report);

class TrainingProgress {
 public:
  // With `quiet`, nothing is printed to standard output, which is for the result alone.
  explicit TrainingProgress(bool quiet);

  void show(std::int64_t step, std::int64_t steps);
  void add(const StepReport& line);
  void add(const EvaluationReport& line);
  void end();

 private:
  void clear();

  bool on_terminal_, quiet_;
  std::chrono::steady_clock::time_point begin_, shown_;
  std::int64_t first_step_ = -1;
  std::optional<StepReport> last_;
  std::optional<EvaluationReport> evaluation_;
  std::int64_t printed_epoch_ = -1;
};

}  // namespace tessera::apps
