// A training as a page.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tessera/session.h"
#include "tessera/train.h"

namespace tessera::report {

struct TrainingRecord {
  std::string title;        // of the configuration
  std::string net;          // what is trained, for people
  bool is_running = false;  // the page loads itself anew while the training goes on
  TrainingConfig config;
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
  std::vector<StepTiming> timings;  // the operators of one step; may be empty
  TrainingResult result;
};

// The builder's name, that of the model file without its ending, or else `otherwise`.
std::string name_of_net(const NetOptions& options, const std::string& otherwise);

// Losses, metrics, learning rate and throughput over the steps, how the classes fare, what one step spends its time on,
// and the settings.
std::string training_page(const TrainingRecord& record);

// Keeps the page of a training in a file, while it goes on and at its end. Not for several threads at once.
class TrainingPageFile {
 public:
  // `record` has the title, the net, the configuration, and what an interrupted training had reported. Nothing is
  // written yet.
  TrainingPageFile(std::string path, TrainingRecord record);

  ~TrainingPageFile();  // a page of a training that ended by an error does not load itself anew
  TrainingPageFile(const TrainingPageFile&) = delete;
  TrainingPageFile& operator=(const TrainingPageFile&) = delete;

  TrainingRecord& record() { return record_; }
  // Take reports; the file is replaced as a whole when the last time is some seconds ago. Throw Error(io).
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
