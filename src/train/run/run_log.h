// The log of a training: one line of JSON per entry, so that scripts can follow it while it grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/train.h"

namespace tessera::train {

class RunLog {
 public:
  RunLog() = default;  // writes nothing
  // Begins a new log, or continues one. Entries after `step` are dropped, because a training that resumes from that
  // step writes them again. Throws Error(io).
  explicit RunLog(const std::filesystem::path& path);
  RunLog(const std::filesystem::path& path, std::int64_t step);
  ~RunLog();
  RunLog(RunLog&& other) noexcept;
  RunLog& operator=(RunLog&& other) noexcept;

  // For a table, writes {"step": 0, "samples", "unreadable", "left_over", "columns": [{"name", "encoding", "numbers",
  // "missing", "description"}], "target"}, and "classes" if there are any; nothing for other data.
  void add(const DataSummary& data);
  // Writes {"step", "epoch", "loss", "learning_rate", "gradient_norm", "samples_per_s", "data_wait_share", "seconds"}.
  // Numbers that are not finite become null.
  void add(const StepReport& report);
  // Writes {"step", "test_METRIC", "test_loss", "samples", "skipped_samples", "best"} with all metrics
  // (evaluation_json.h); for validation data "validation_METRIC", for the training data "train_METRIC"; and for at most
  // 100 classes "classes" and "confusion". An entry with "weights": "best" is the evaluation of the best weights after
  // the training has ended.
  void add(const EvaluationReport& report);
  // Writes the last line: {"step", "test_METRIC", "test_loss", "seconds", "precision", "peak_rss_bytes", …}
  void add(const TrainingResult& result, const std::string& precision);

 private:
  void write(const std::string& line);

  int descriptor_ = -1;
  std::string path_;
};

// The reports in a log up to `step`, as far as its lines contain them. Empty if there is no log.
struct LoggedReports {
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
};
LoggedReports read_log(const std::filesystem::path& path, std::int64_t step);

}  // namespace tessera::train
