// A training step as a graph: forward, loss, backward, update.
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

namespace tessera::train {

// What training does with BatchNormalization.
enum class BatchNorm : std::uint8_t {
  train,   // normalise by the statistics of the batch and keep their moving averages; scale and bias are trained
  frozen,  // leave it as it is: statistics, scale and bias are constants
};

// A loss with the element type and the dimensions of its target, the batch included.
struct Objective {
  LossOptions loss;
  DType target_type = DType::i64;
  ir::Dims target_dims;
};

struct TrainingGraphOptions {
  LossOptions loss;
  std::vector<Objective> further;  // losses that are added to it
  // Patterns of names of constants: those that stay, and those that are trained whatever the file says of them.
  std::vector<std::string> frozen, trained;
  double dropout = -1;  // the probability of each Dropout; below 0: as the model has it
  BatchNorm batch_norm = BatchNorm::train;
  OptimiserOptions optimiser;
  LossScaleOptions loss_scale;
  DType precision = DType::f32;  // what products multiply in, see train/net/mixed_precision.h
  std::int64_t accumulate = 1;   // gradients of so many runs are averaged for one update
  double average_decay = 0;      // above 0: an exponential moving average of each parameter is kept
  std::int64_t recompute_bytes =
      0;  // above 0: see passes/training/recompute.h; needs a model whose shapes are all known
  // Makes one node of attention that the model spells out, whose gradient stores no scores, where `precision` is f32.
  bool fuse_attention = true;
  bool mixup = false;                       // the target comes as TARGET, TARGET_mixed and mix
  std::shared_ptr<const Teacher> teacher;   // null: there is none
  std::optional<CompressOptions> compress;  // nothing: nothing is quantised
  DType target_type = DType::i64;
  ir::Dims target_dims;  // with the batch dimension
};

// What the graph has beside the model's own inputs and outputs, TARGET being the target of each loss:
//   inputs     TARGET (and TARGET_mixed, mix), of the type given, unless the model has an input of that name, which is
//              the target then; integers and bool are cast as the loss needs them;
//              learning_rate: f32 []
//   outputs    loss: f32 [], before scaling, of several the weighted sum; gradient_norm: f32 [], before clipping;
//   skipped: bool [], whether a
//              gradient was not finite, so that the step changed no parameter
//   variables  each parameter, by its name; NAME/first and NAME/second: the optimiser's state; NAME/average;
//              NAME/gradient: what is accumulated; each running mean and variance of BatchNormalization, by its name,
//              which a run changes where its gradients are finite; train/count: i64 [], updates done;
//              train/loss_scale, train/good_steps; train/run: i64 [], runs since the last update; and for a host that
//              reads rarely: train/loss_sum: f64 [], of all finite losses; train/loss_count: i64 [], of how many;
//              train/skipped: i64 [], updates that were skipped
struct TrainingGraph {
  ir::Graph graph;
  std::vector<std::string> parameters;
  std::vector<std::string> reasons;  // why each parameter is one, see train/net/untrained.h
  // Variables that are no parameters, but belong to the net: running means and variances, and what fake quantisation
  // keeps (train/net/fake_quantisation.h).
  std::vector<std::string> statistics;
  // Float32 constants of rank 1 or more that are no parameters, each with the reason.
  std::vector<std::pair<std::string, std::string>> untrained;
  passes::RecomputeReport recompute;          // where it was asked for
  std::vector<std::size_t> predictions = {};  // of an evaluation graph: which output each loss compares
};

// From a graph whose types have been inferred, which may be in training or inference form. Float32 constants that are
// weights become variables (train/net/untrained.h); those of BatchNormalization as train/net/batch_norm.h says. Each
// Dropout drops. Throws Error: invalid_argument for an unknown output, a pattern that matches nothing, options out of
// range and where nothing is left to train; unsupported, listing every node that has no gradient.
TrainingGraph make_training_graph(const ir::Graph& model, const TrainingGraphOptions& options);

// The same model and losses without the way back, without mixup of targets, and nothing drops: the parameters and the
// running statistics are variables that nothing updates. The outputs are the prediction of each loss, each once; behind
// them losses: f32 [K], those of a batch in the order of the options, and loss_counts: f32 [K], the sums of weights
// that they are means over (LossValues).
TrainingGraph make_evaluation_graph(const ir::Graph& model, const TrainingGraphOptions& options);

// Throws Error(invalid_argument) for options out of range, as the two above do.
void check_options(const TrainingGraphOptions& options);

// Names of the variables that belong to a parameter or to training, as above.
std::string first_state_of(const std::string& parameter);
std::string second_state_of(const std::string& parameter);
std::string average_of(const std::string& parameter);

}  // namespace tessera::train
