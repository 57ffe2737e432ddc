// What training makes of BatchNormalization.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

// The model with constants of their own for scale, bias, mean and variance of each BatchNormalization. Exporters keep
// one constant for equal ones (those of layers that are not trained yet), which would then change together. The
// variables of a training graph are named after the constants of this graph. A graph that has been separated stays as
// it is.
ir::Graph separate_batch_norm(ir::Graph model);

// A running mean or variance: a variable, the value that reads it, and what a run makes of it.
struct RunningStatistic {
  std::string name;
  ir::ValueId value, next;
};

// Lets each BatchNormalization of a separated graph whose statistics are constants take those of the batch, and makes
// the constants variables of the same names, whose updates are left to the caller. ReLUs and sums behind it become part
// of the normalisation. The graph's types are inferred again. One whose mean or variance has a name like a pattern of
// `frozen` stays as it is: it normalises by these constants.
std::vector<RunningStatistic> train_batch_norm(ir::Graph& graph, const std::vector<std::string>& frozen);

// The same variables, which each BatchNormalization goes on to normalise by and nothing updates; `next` is invalid.
std::vector<RunningStatistic> read_running_statistics(ir::Graph& graph, const std::vector<std::string>& frozen);

// The constants that each BatchNormalization at inference has for mean and variance, and with `all` those for scale and
// bias, too.
std::set<ir::ValueId> batch_norm_constants(const ir::Graph& graph, bool all);

}  // namespace tessera::train
