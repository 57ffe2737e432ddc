// The log of a training: a line of JSON for each entry, so that scripts can follow it while it grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

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
  // {"step", "test_METRIC", "test_loss", "samples", "skipped_samples", "best"}
  void add(const EvaluationReport& report);
  // The last line: {"step", "test_METRIC", "test_loss", "seconds", "precision", "peak_rss_bytes", …}
  void add(const TrainingResult& result, const std::string& precision);

 private:
  void write(const std::string& line);

  int descriptor_ = -1;
  std::string path_;
};

}  // namespace tessera::train
