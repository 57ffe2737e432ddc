// Sets up a training before its first step: the net, the data, and the sessions that run them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/communicator.h"
#include "base/numbers/sum_tree.h"
#include "tessera/train.h"
#include "train/data/data_source.h"
#include "train/data/loader.h"
#include "train/evaluation/evaluation.h"
#include "train/net/pruning.h"
#include "train/net/training_graph.h"
#include "train/run/binding.h"
#include "train/run/data_faults.h"

namespace tessera::train {

// Whether steps on that device are complete when the call that runs them returns, so that results can be read after
// each step without waiting for a device that computes beside the host.
bool runs_at_once(std::string_view device);

// The net that the options name. Throws Error(invalid_argument) unless they name exactly one, and the errors of
// loading.
Model load_net(const NetOptions& options);

struct TrainingSetup {
  // Throws Error as Trainer's constructor does.
  TrainingSetup(const Model& model, TrainingConfig given);

  TrainingConfig config;
  std::vector<std::string> notes;  // see TrainedWeights
  Model net;
  DataSource data;
  Binding binding;
  TrainingGraphOptions graph_options;
  std::vector<std::string> parameters, reasons;                // names, and why they are trained
  std::vector<std::string> statistics;                         // names of running means and variances
  std::vector<std::pair<std::string, std::string>> untrained;  // see TrainingGraph
  std::map<std::string, TargetRange> target_ranges;            // by field; others are not checked
  std::shared_ptr<base::Communicator> communicator;            // null where this process trains alone
  base::SumBlock block;                                        // the micro-batches of each step that this rank runs
  std::optional<Loader> loader;
  std::optional<Model> step_model;
  std::optional<Session> session;    // that runs the step
  std::vector<LossOptions> losses;   // all losses; weights of classes are resolved to numbers
  std::vector<std::string> metrics;  // all metrics; the first one decides
  std::optional<Pruner> pruner;      // nothing if no weight is pruned
  std::int64_t steps = 0, steps_per_epoch = 0;

  SessionOptions session_options() const;
  // Whether this rank writes files and evaluates, as one of all ranks does.
  bool leads() const { return communicator == nullptr || communicator->rank() == 0; }
  // The evaluator of "test", "validation" or "train" data, made at its first use. Throws Error(invalid_argument) if
  // there are no such data.
  Evaluator& evaluator_of(const std::string& data);
  bool has_data(const std::string& name) const { return data_of(name) != nullptr; }
  // The name of the data that judge the training while it goes on; empty if there are none.
  std::string judging_data() const { return data.validation ? "validation" : data.test ? "test" : ""; }
  DataSummary data_summary() const;
  // Another loader of the training data that gives the same batches.
  std::unique_ptr<Loader> make_loader(int workers) const;
  // The net with the batch size fixed, which is the same in all batches and helps the passes.
  Model sized_net() const { return sized(net); }

 private:
  Model sized(const Model& model) const;
  std::shared_ptr<const Dataset> data_of(const std::string& name) const;
  void find_rank();
  void balance_losses();
  LoaderOptions loader_options() const;
  void bind_data();
  void make_sessions();

  std::map<std::string, std::unique_ptr<Evaluator>> evaluators_;
  std::optional<Model> evaluation_model_;
  std::vector<std::size_t> predictions_;  // see TrainingGraph
};

}  // namespace tessera::train
