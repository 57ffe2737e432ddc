// What a training needs before its first step: the net, the data, and the sessions that run them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train.h"
#include "train/binding.h"
#include "train/data/data_source.h"
#include "train/data/loader.h"
#include "train/data_faults.h"
#include "train/evaluation.h"
#include "train/pruning.h"
#include "train/training_graph.h"

namespace tessera::train {

// The net that the options name. Throws Error(invalid_argument) unless it is exactly one, and as loading does.
Model load_net(const NetOptions& options);

struct TrainingSetup {
  // Throws Error as Trainer's constructor does.
  TrainingSetup(const Model& model, TrainingConfig given);

  TrainingConfig config;
  Model net;
  DataSource data;
  Binding binding;
  TrainingGraphOptions graph_options;
  std::vector<std::string> parameters, reasons;                // names, and why they are trained
  std::vector<std::string> statistics;                         // names of running means and variances
  std::vector<std::pair<std::string, std::string>> untrained;  // see TrainingGraph
  std::optional<TargetRange> targets;                          // nothing: they are not checked
  std::optional<Loader> loader;
  std::optional<Model> step_model;
  std::optional<Session> session;      // of the step
  std::optional<Evaluator> evaluator;  // nothing without test data
  std::optional<Pruner> pruner;        // nothing where no weight is pruned
  std::int64_t steps = 0, steps_per_epoch = 0;

  SessionOptions session_options() const;
  DataSummary data_summary() const;
  // Another loader of the training data, which gives the same batches.
  std::unique_ptr<Loader> make_loader(int workers) const;
  // All batches of a training have the same sizes, which the passes are better off knowing.
  Model sized_net() const { return sized(net); }

 private:
  Model sized(const Model& model) const;
  LoaderOptions loader_options() const;
  void bind_data();
  void make_sessions();
};

}  // namespace tessera::train
