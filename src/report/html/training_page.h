// Shows a training as a page.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tessera/session.h"
#include "tessera/train.h"

namespace tessera::report {

struct TrainingRecord {
  std::string title;        // that of the configuration
  std::string net;          // a description of what is trained, for people
  bool is_running = false;  // whether the page reloads itself because the training goes on
  TrainingConfig config;
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
  std::vector<StepTiming> timings;  // of the operators of one step; may be empty
  TrainingResult result;
};

// The builder's name, or the model file's name without its ending, or else `otherwise`.
std::string name_of_net(const NetOptions& options, const std::string& otherwise);

// Shows losses, metrics, learning rate and throughput over the steps, the results by class, the time of one step by
// operator, and the settings.
std::string training_page(const TrainingRecord& record);

// Keeps a training's page in a file up to date, while the training goes on and at its end. Not thread-safe.
class TrainingPageFile {
 public:
  // `record` has the title, the net, the configuration, and the reports of an interrupted training that goes on. Writes
  // nothing yet.
  TrainingPageFile(std::string path, TrainingRecord record);

  ~TrainingPageFile();  // if the training ended by an error, makes the page stop reloading itself
  TrainingPageFile(const TrainingPageFile&) = delete;
  TrainingPageFile& operator=(const TrainingPageFile&) = delete;

  TrainingRecord& record() { return record_; }
  // Add reports. The file is replaced as a whole, at most once in some seconds. Throw Error(io).
  void add(const StepReport& report);
  void add(const EvaluationReport& report);
  void finish(const TrainingResult& result);

 private:
  void write_if_due();

  std::string path_;
  TrainingRecord record_;
  std::chrono::steady_clock::time_point written_;
};

}  // namespace tessera::report
