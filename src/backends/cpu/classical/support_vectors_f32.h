// The sums behind support-vector machines: for rows of float32, coefficients times kernel values of all support
// vectors, in double.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/classical/linear_model.h"

namespace tessera::backends::cpu {

// Part of a support-vector machine's coefficients: those of one class in one row of them, which add to one score.
struct VectorSegment {
  std::int64_t first = 0, count = 0;    // of the vectors
  const float* coefficients = nullptr;  // of `count` vectors
  std::int64_t score = 0;
};

// Vectors are kept in panels of so many, [panel][feature][vector], with zeros behind the last.
inline constexpr std::int64_t kVectorPanel = 16;

class SupportVectors {
 public:
  // `vectors` is [plan.vectors, features]; segments are in the order of their first vector, and what their coefficients
  // point to outlives this.
  SupportVectors(const ops::SvmPlan& plan, const std::vector<float>& vectors, std::int64_t features,
                 std::vector<VectorSegment> segments, std::int64_t scores);

  std::int64_t features() const { return features_; }
  std::int64_t scores() const { return scores_; }
  // Multiplications of a row.
  std::int64_t cost() const { return (weights_.empty() ? plan_.vectors : scores_) * (features_ + 8); }
  // Adds to scores[row][segment.score], scores() a row.
  void add_scores(const float* x, std::int64_t rows, double* scores) const;

 private:
  void fold(const std::vector<float>& vectors);

  ops::SvmPlan plan_;
  std::int64_t features_;
  std::vector<VectorSegment> segments_;
  std::int64_t scores_;
  std::vector<float> panels_;
  std::vector<double> weights_;  // with the linear kernel: all vectors of a score in one, [scores, features]
};

}  // namespace tessera::backends::cpu
