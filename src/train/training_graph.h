// A training step as a graph: forward, loss, backward, update.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "train/losses.h"

namespace tessera::train {

struct OptimiserOptions {
  std::string name = "sgd";  // sgd, adam, adamw, adagrad, lars, lamb: see ops/optimiser_step.h
  double momentum = 0;       // sgd, lars
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = -1;                // below 0: 1e-8, of adagrad 1e-10, of lamb 1e-6
  double rate_decay = 0;              // adagrad
  double trust = 0.001;               // lars
  double weight_decay = 0;            // of parameters whose names match none of no_decay
  std::vector<std::string> no_decay;  // patterns as of file names: "*bias", "norm*"
  double clip_norm = 0;               // above 0: gradients are scaled down to this global norm
};

// Loss scaling that adapts itself (Micikevicius et al., arXiv:1710.03740): the loss is multiplied by a power of two,
// which doubles after `grow_after` steps without overflow and halves when a gradient is not finite; that step changes
// nothing.
struct LossScaleOptions {
  bool on = false;
  double initial = 65536, least = 1, most = 16777216;
  std::int64_t grow_after = 2000;
};

struct TrainingGraphOptions {
  LossOptions loss;
  std::string prediction;           // the output that the loss compares; empty: the model's only one
  std::vector<std::string> frozen;  // patterns of names of weights that stay constants
  OptimiserOptions optimiser;
  LossScaleOptions loss_scale;
  std::int64_t accumulate = 1;  // gradients of so many runs are averaged for one update
  double average_decay = 0;     // above 0: an exponential moving average of each parameter is kept
  bool mixup = false;           // the target comes as y, y_mixed and mix
  DType target_type = DType::i64;
  ir::Dims target_dims;  // with the batch dimension
};

// What the graph has beside the model's own inputs and outputs:
//   inputs     y (and y_mixed, mix): the target; learning_rate: f32 []
//   outputs    loss: f32 [], before scaling; gradient_norm: f32 [], before clipping; skipped: bool [], whether the step
//              changed nothing because of overflow
//   variables  each parameter, by its name; NAME/first and NAME/second: the optimiser's state; NAME/average;
//              NAME/gradient: what is accumulated; train/count: i64 [], updates done; train/loss_scale,
//              train/good_steps; train/run: i64 [], runs since the last update
struct TrainingGraph {
  ir::Graph graph;
  std::vector<std::string> parameters;
};

// From an inference graph whose types have been inferred. Float constants of rank 1 or more become variables unless
// they are frozen. Throws Error: invalid_argument for an unknown output, a pattern that matches nothing, options out of
// range and where nothing is left to train; unsupported, listing every node that has no gradient.
TrainingGraph make_training_graph(const ir::Graph& model, const TrainingGraphOptions& options);

// Names of the variables that belong to a parameter or to training, as above.
std::string first_state_of(const std::string& parameter);
std::string second_state_of(const std::string& parameter);
std::string average_of(const std::string& parameter);

}  // namespace tessera::train
