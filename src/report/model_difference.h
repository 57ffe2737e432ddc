// Where two models, or one model under two settings, part: run side by side on the same inputs and compared value by value.
#pragma once

#include <string>
#include <vector>

#include "report/output_difference.h"
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

struct ValueComparison {
  std::string op, node;       // that makes the value in A; empty for inputs and constants
  std::int64_t position = 0;  // in the order in which A computes values; 0 for those
  OutputDifference difference;
};

struct ModelDifference {
  std::vector<ValueComparison> outputs;  // of runs in which nothing else is handed out
  // Values of both that have the same name and are no outputs, in the order in which A computes them. Handing a value out keeps passes from
  // fusing the node that makes it.
  std::vector<ValueComparison> values;
  std::int64_t only_in_a = 0, only_in_b = 0;  // values of nodes without a counterpart
  std::int64_t runs = 0;                      // of each model
  bool same() const;
  // In the order of A; null when all agree.
  const ValueComparison* first() const;
};

// Inputs and outputs that have other names in B go by their position, if there are as many. Throws Error: invalid_argument (inputs or outputs do
// not correspond), and what sessions throw.
ModelDifference compare_models(const Model& a, const Model& b, const NamedValues& inputs, const ModelDifferenceOptions& options);

// "the first value that differs: 'x', made by node 'y' (Conv)"
std::string headline(const ModelDifference& difference);
// What differs, at most `most` lines of it (0: all), then the headline.
std::string model_difference_text(const ModelDifference& difference, std::size_t most);
std::string model_difference_json(const ModelDifference& difference);

}  // namespace tessera::report
