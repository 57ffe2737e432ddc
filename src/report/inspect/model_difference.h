// Finds where two models, or one model under two settings, differ: runs both on the same inputs and compares them value
// by value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/inspect/output_difference.h"
#include "tessera/session.h"

namespace tessera::report {

struct ModelDifferenceOptions {
  SessionOptions a, b;
  RunOptions run;
  Closeness closeness;
  bool outputs_only = false;
  // The most bytes of values that one run returns; for more, several runs are made.
  std::int64_t most_bytes = std::int64_t{256} << 20;
};

// The order of a list: by A's computation, or by one of the figures with the largest difference first.
enum class DifferenceOrder : std::uint8_t { computed, snr, cosine, largest };

struct ValueComparison {
  std::string op, node;       // of the node that makes the value in A; empty for inputs and constants
  std::int64_t position = 0;  // in the order in which A computes values; 0 for inputs and constants
  OutputDifference difference;
  std::string name_b;  // of the value in B; difference.name is that in A
};

struct ModelDifference {
  std::vector<ValueComparison> outputs;  // of runs that return nothing else
  // Values of both models that mean the same (see value_pairs.h) and are not outputs, in the order in which A computes
  // them. Returning a value keeps passes from fusing the node that makes it.
  std::vector<ValueComparison> values;
  std::int64_t only_in_a = 0, only_in_b = 0;  // number of values of nodes without a counterpart
  std::int64_t runs = 0;                      // of each model
  bool quantised = false;  // whether one of the models rounds values to integers that the other does not round
  bool same() const;
  // The first value that differs, in the order of A; null if all agree.
  const ValueComparison* first() const;
};

// Inputs and outputs whose names differ in B are matched by position if there are equally many. Throws
// Error(invalid_argument) if inputs or outputs do not correspond, and the errors of sessions.
ModelDifference compare_models(const Model& a, const Model& b, const NamedValues& inputs,
                               const ModelDifferenceOptions& options);

// "the first value that differs: 'x', made by node 'y' (Conv)"
std::string headline(const ModelDifference& difference);
// Orders both lists. `computed` is the order that compare_models gives.
void sort_values(ModelDifference& difference, DifferenceOrder order);

// The values that differ, in at most `most` lines (0: all), then the headline. Lines have at most 120 columns.
std::string model_difference_text(const ModelDifference& difference, std::size_t most);
std::string model_difference_json(const ModelDifference& difference);

}  // namespace tessera::report
