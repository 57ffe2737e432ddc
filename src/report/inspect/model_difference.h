// Where two models, or one model under two settings, differ: run side by side on the same inputs and compared value by
// value.
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
  // Of the values that one run hands out; more are compared in several runs.
  std::int64_t most_bytes = std::int64_t{256} << 20;
};

// What comes first in a list: what A computes first, or what differs most by one of the figures.
enum class DifferenceOrder : std::uint8_t { computed, snr, cosine, largest };

struct ValueComparison {
  std::string op, node;       // that makes the value in A; empty for inputs and constants
  std::int64_t position = 0;  // in the order in which A computes values; 0 for those
  OutputDifference difference;
  std::string name_b;  // of the value in B; difference.name is that in A
};

struct ModelDifference {
  std::vector<ValueComparison> outputs;  // of runs in which nothing else is handed out
  // Values of both that mean the same (see value_pairs.h) and are no outputs, in the order in which A computes them.
  // Handing a value out keeps passes from fusing the node that makes it.
  std::vector<ValueComparison> values;
  std::int64_t only_in_a = 0, only_in_b = 0;  // values of nodes without a counterpart
  std::int64_t runs = 0;                      // of each model
  bool quantised = false;                     // one of the models rounds values to integers that the other does not
  bool same() const;
  // In the order of A; null when all agree.
  const ValueComparison* first() const;
};

// Inputs and outputs that have other names in B go by their position, if there are as many. Throws Error:
// invalid_argument (inputs or outputs do not correspond), and what sessions throw.
ModelDifference compare_models(const Model& a, const Model& b, const NamedValues& inputs,
                               const ModelDifferenceOptions& options);

// "the first value that differs: 'x', made by node 'y' (Conv)"
std::string headline(const ModelDifference& difference);
// Orders both lists. `computed` is the order that compare_models gives.
void sort_values(ModelDifference& difference, DifferenceOrder order);

// What differs, at most `most` lines of it (0: all), then the headline. Lines have at most 120 columns.
std::string model_difference_text(const ModelDifference& difference, std::size_t most);
std::string model_difference_json(const ModelDifference& difference);

}  // namespace tessera::report
