// The state of a Trainer, shared by the files that implement it.
#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train.h"
#include "train/run/checkpoint.h"
#include "train/run/run_folder.h"
#include "train/run/run_log.h"
#include "train/run/tensorboard.h"
#include "train/run/training_setup.h"

namespace tessera {

struct Trainer::State : train::TrainingSetup {
  State(const Model& model, TrainingConfig given)
      : TrainingSetup(model, std::move(given)), reads_every_step_(train::runs_at_once(config.device)) {}

  TrainingResult run(const TrainingHooks& hooks);
  void resume(const std::string& path);
  EvaluationReport evaluate(const std::string& data);
  Model trained(const std::map<std::string, Tensor>& values) const;
  std::map<std::string, Tensor> weights() const;
  train::Checkpoint checkpoint() const;

  train::Checkpoint at;  // the position of the training; its variables are those of the session
  std::optional<EvaluationReport> last_evaluation;

 private:
  using Weights = std::map<std::string, Tensor>;
  struct Pending {
    std::int64_t step = 0;
    // for the data that judge, then for the training data if requested
    std::future<std::vector<EvaluationReport>> result;
    std::optional<std::vector<EvaluationReport>> reports;  // set once they were logged
    std::vector<StepReport> later;                         // lines of later steps, which are logged after it
  };

  train::RunFolder open_output();
  // Throws Error(failed) unless all ranks train the same net on the same data in the same way.
  void check_ranks() const;
  // The first answer that is not empty of all ranks, preceded by the rank; this rank's answer where it trains alone.
  std::string first_answer(const std::string& name, const std::string& own) const;
  // The decision of rank 0.
  bool agreed(const std::string& name, bool own) const {
    return communicator == nullptr ? own : communicator->agree(name, own);
  }
  void step(const TrainingHooks& hooks, bool with_timings);
  void run_once(const TrainingHooks& hooks, const NamedValues& inputs, const RunOptions& how, bool reads);
  std::uint64_t seed_of_run() const;
  std::int64_t counter(const char* name) const { return session->variables()->get(name).data<std::int64_t>()[0]; }
  StepReport report();
  void check_finite(const NamedValues& inputs, const train::DataPosition& position);
  [[noreturn]] void fail_not_finite(const NamedValues& inputs, const train::DataPosition& position);
  std::string fault_in_data(const train::DataPosition& position) const;
  void log(const StepReport& report, const TrainingHooks& hooks);
  void begin_evaluation(const TrainingHooks& hooks);
  void end_evaluation(const TrainingHooks& hooks);
  void log_evaluation(const TrainingHooks& hooks);
  EvaluationReport shared_report(const std::optional<EvaluationReport>& own) const;
  void tell(const EvaluationReport& report, const TrainingHooks& hooks);
  EvaluationReport test(const Weights& values, std::int64_t step, const TrainingHooks& hooks);
  void run_tests(const TrainingHooks& hooks, TrainingResult& result);
  std::optional<Weights> best_weights() const;
  void save_checkpoint(const TrainingHooks& hooks);
  bool is_due(std::int64_t every) const {
    return at.step == steps || at.step % (every > 0 ? every : steps_per_epoch) == 0;
  }
  std::filesystem::path file(const std::string& name) const { return std::filesystem::path(config.output) / name; }

  train::RunLog log_;
  train::TensorBoardLog tensorboard_;
  // The location of the checkpoint that the training resumes from, and the step of the newest one there.
  std::optional<std::filesystem::path> came_from_;
  std::optional<std::int64_t> newest_step_;
  std::optional<Pending> pending_;
  std::optional<Weights> best_;  // kept if the test data are not those that judge
  double base_seconds_ = 0;      // of the training before it was resumed
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point reported_;
  std::int64_t reported_samples_ = 0, reported_wait_ns_ = 0, skipped_ = 0, reported_skipped_ = 0;
  std::int64_t epoch_ = 0;  // of the last batch
  double learning_rate_ = 0, gradient_norm_ = 0;
  bool reads_every_step_;
};

}  // namespace tessera
