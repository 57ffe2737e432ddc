// Builds the graph of a training step: forward pass, loss, backward pass, update.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "passes/training/recompute.h"
#include "train/net/distillation.h"
#include "train/net/losses.h"
#include "train/net/micro_batches.h"

namespace tessera::train {

// How training treats BatchNormalization.
enum class BatchNorm : std::uint8_t {
  train,   // normalise by the statistics of the batch and keep their moving averages; scale and bias are trained
  frozen,  // do not change it: statistics, scale and bias are constants
};

// A loss with the element type and the dimensions of its target, including the batch.
struct Objective {
  LossOptions loss;
  DType target_type = DType::i64;
  ir::Dims target_dims;
};

struct TrainingGraphOptions {
  LossOptions loss;
  std::vector<Objective> further;  // losses that are added to the first
  // Patterns of names of constants that stay constant, and of those that are trained whatever the file says about them.
  std::vector<std::string> frozen, trained;
  double dropout = -1;  // the probability of each Dropout; below 0, that of the model
  BatchNorm batch_norm = BatchNorm::train;
  OptimiserOptions optimiser;
  LossScaleOptions loss_scale;
  DType precision = DType::f32;  // the element type of products, see train/net/mixed_precision.h
  // Gradients of so many micro-batches are averaged for one update; each rank runs a block of them.
  std::int64_t accumulate = 1;
  RankShare ranks;
  double average_decay = 0;  // if above 0, an exponential moving average of each parameter is kept
  std::int64_t recompute_bytes =
      0;  // if above 0, see passes/training/recompute.h; needs a model whose shapes are all known
  // Fuses attention that the model spells out into one node, whose gradient stores no scores, if `precision` is f32.
  bool fuse_attention = true;
  bool mixup = false;                       // the target consists of TARGET, TARGET_mixed and mix
  std::shared_ptr<const Teacher> teacher;   // may be null
  std::optional<CompressOptions> compress;  // if nothing, no layer is quantised
  DType target_type = DType::i64;
  ir::Dims target_dims;  // including the batch dimension
};

// The inputs, outputs and variables of the graph, in addition to the model's own inputs and outputs. TARGET is the
// target of each loss.
//   inputs     TARGET (and TARGET_mixed, mix), of the given type, unless the model has an input of that name, which is
//              the target then; integers and bool are cast as the loss needs them.
//              learning_rate: f32 []
//   outputs    loss: f32 [], before scaling; the weighted sum if there are several.
//              gradient_norm: f32 [], before clipping.
//              skipped: bool [], whether a gradient was not finite, so that the step changed no parameter
//   variables  each parameter, by its name; NAME/first and NAME/second: the optimiser's state; NAME/average;
//              NAME/gradient_sums: accumulated gradients; each running mean and variance of BatchNormalization, by its
//              name, which an update changes if its gradients are finite; train/count: i64 [], number of updates;
//              train/loss_scale, train/good_steps; train/run: i64 [], runs since the last update; train/rows: losses
//              and statistics of those runs; and for a host that reads rarely: train/loss_sum: f64 [], the sum of all
//              finite losses; train/loss_count: i64 [], their number; train/skipped: i64 [], number of skipped updates
struct TrainingGraph {
  ir::Graph graph;
  std::vector<std::string> parameters;
  std::vector<std::string> reasons;  // why each constant is a parameter, see train/net/untrained.h
  // Variables that are not parameters but belong to the net: running means and variances, and the state of fake
  // quantisation (train/net/fake_quantisation.h).
  std::vector<std::string> statistics;
  // Float32 constants of rank 1 or more that are not parameters, each with the reason.
  std::vector<std::pair<std::string, std::string>> untrained;
  passes::RecomputeReport recompute;          // set if recomputation was requested
  std::vector<std::size_t> predictions = {};  // in an evaluation graph, the output that each loss compares
};

// Makes the step from a graph in training or inference form whose types have been inferred. Float32 constants that are
// weights become variables (train/net/untrained.h); those of BatchNormalization as train/net/batch_norm.h says. Each
// Dropout drops. Throws Error(invalid_argument) for an unknown output, for a pattern that matches nothing, for options
// out of range and if nothing is left to train; throws Error(unsupported) that lists every node without a gradient.
TrainingGraph make_training_graph(const ir::Graph& model, const TrainingGraphOptions& options);

// Makes the graph for evaluation: the same model and losses without the backward pass, without mixup of targets, and
// without Dropout. The parameters and the running statistics are variables that nothing updates. The outputs are the
// prediction of each loss, each once; behind them are losses: f32 [K], those of a batch in the order of the options,
// and loss_counts: f32 [K], the divisors of their means (LossValues).
TrainingGraph make_evaluation_graph(const ir::Graph& model, const TrainingGraphOptions& options);

// Throws Error(invalid_argument) for options out of range, as the two functions above do.
void check_options(const TrainingGraphOptions& options);

// Names of the variables that belong to a parameter or to training, as listed above.
std::string first_state_of(const std::string& parameter);
std::string second_state_of(const std::string& parameter);
std::string average_of(const std::string& parameter);

}  // namespace tessera::train
