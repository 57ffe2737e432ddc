// Converts the sums of a decision forest's votes to labels and scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/classical/tree_ensemble.h"

namespace tessera::backends::host {

// Scores are summed tree by tree in the precision of the input: double for f64, else float32, as onnxruntime does on
// one thread. Ties depend on it: five weights of 0.1f are exactly 0.5 in float32, and more than 0.5 in double. A
// float32 sum or quotient computed in double and then rounded is the float32 one (53 bits are more than twice 24 and
// 2).
struct ScorePrecision {
  bool single = true;
  double operator()(double value) const { return single ? static_cast<double>(static_cast<float>(value)) : value; }
};

class ForestScores {
 public:
  ForestScores(const ops::Forest& forest, ScorePrecision rounded);

  // Whether one of two classes has all votes; if not, classify() reads `voted`.
  bool has_only_class() const { return only_class_ >= 0; }

  // Converts `scores`, the aggregated votes by target, to the operator's results.
  void finish(std::span<double> scores) const;
  // As finish(), for a classifier. Returns the winning class, the first of equal ones. `voted` says of each class
  // whether any leaf voted for it.
  std::size_t classify(std::span<double> scores, std::span<const std::uint8_t> voted) const;

 private:
  void add_base(std::span<double> scores) const;
  std::size_t classify_by_threshold(std::span<double> scores) const;

  std::vector<double> base_values_;
  ops::PostTransform transform_;
  ScorePrecision rounded_;
  bool all_positive_ = true;
  int only_class_ = -1;  // the one of two classes that leaves vote for; -1: they vote for both, or there are more
};

}  // namespace tessera::backends::host
