// The log of a training: a line of JSON for each entry, so that scripts can follow it while it grows.
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
  // Begins a new log, or goes on with one: entries behind `step`, which a training that goes on from that step will
  // write again, are dropped. Throws Error(io).
  explicit RunLog(const std::filesystem::path& path);
  RunLog(const std::filesystem::path& path, std::int64_t step);
  ~RunLog();
  RunLog(RunLog&& other) noexcept;
  RunLog& operator=(RunLog&& other) noexcept;

  // {"step": 0, "samples", "left_over", "columns": [{"name", "encoding", "numbers", "missing", "description"}],
  // "target", "classes"}, of a table alone.
  void add(const DataSummary& data);
  // {"step", "epoch", "loss", "learning_rate", "gradient_norm", "samples_per_s", "data_wait_share", "seconds"}. Numbers
  // that are not finite are null.
  void add(const StepReport& report);
  // {"step", "test_METRIC", "test_loss", "samples", "skipped_samples", "best"} with all metrics (evaluation_json.h), of
  // validation data as "validation_METRIC", of the training data as "train_METRIC"; and of at most 100 classes
  // "classes" and "confusion". With "weights": "best" it tells of the best weights, when the training has ended.
  void add(const EvaluationReport& report);
  // The last line: {"step", "test_METRIC", "test_loss", "seconds", "precision", "peak_rss_bytes", …}
  void add(const TrainingResult& result, const std::string& precision);

 private:
  void write(const std::string& line);

  int descriptor_ = -1;
  std::string path_;
};

// What a log has of the steps up to `step`, as far as its lines tell. Empty where there is no log.
struct LoggedReports {
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
};
LoggedReports read_log(const std::filesystem::path& path, std::int64_t step);

}  // namespace tessera::train
