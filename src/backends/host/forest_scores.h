// How the sums of a decision forest's votes become labels and scores.
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

  // Whether one class of two has all the votes: classify() looks at `voted` otherwise.
  bool has_only_class() const { return only_class_ >= 0; }

  // `scores`, aggregated votes by target, become what the operator returns.
  void finish(std::span<double> scores) const;
  // The same for classes. The winning class is returned, of equal ones the first. `voted` says of each class whether
  // any leaf spoke about it.
  std::size_t classify(std::span<double> scores, std::span<const std::uint8_t> voted) const;

 private:
  void add_base(std::span<double> scores) const;
  std::size_t classify_by_threshold(std::span<double> scores) const;

  std::vector<double> base_values_;
  ops::PostTransform transform_;
  ScorePrecision rounded_;
  bool all_positive_ = true;
  int only_class_ = -1;  // of two classes, the one that leaves vote for; -1: there is more than one
};

}  // namespace tessera::backends::host
