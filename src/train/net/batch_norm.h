// Prepares BatchNormalization for training.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

// The model with separate constants for scale, bias, mean and variance of each BatchNormalization. Exporters store
// equal constants once (those of layers that are not trained yet), which would then change together. The variables of a
// training graph are named after the constants of this graph. A graph that was separated before is not changed.
ir::Graph separate_batch_norm(ir::Graph model);

// A running mean or variance: a variable, the value that reads it, and its next value. For BatchNormalization that is
// value · momentum + batch · (1 − momentum).
struct RunningStatistic {
  std::string name;
  ir::ValueId value, next;
  double momentum = 0;
};

// Lets each BatchNormalization of a separated graph whose statistics are constants use the statistics of the batch, and
// turns the constants into variables of the same names, whose updates are left to the caller. ReLUs and sums behind it
// become part of the normalisation. The graph's types are inferred again. A BatchNormalization whose mean or variance
// has a name that matches a pattern of `frozen` is not changed: it normalises by these constants.
std::vector<RunningStatistic> train_batch_norm(ir::Graph& graph, const std::vector<std::string>& frozen);

// Turns the same constants into variables, by which each BatchNormalization still normalises and which nothing updates;
// `next` is invalid.
std::vector<RunningStatistic> read_running_statistics(ir::Graph& graph, const std::vector<std::string>& frozen);

// The constants for mean and variance of each BatchNormalization in inference form; with `all`, also those for scale
// and bias.
std::set<ir::ValueId> batch_norm_constants(const ir::Graph& graph, bool all);

}  // namespace tessera::train
