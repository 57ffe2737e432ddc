// The sums of support-vector machines: for float32 rows, coefficients times the kernel values of all support vectors,
// in double.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/classical/linear_model.h"

namespace tessera::backends::cpu {

// A part of a support-vector machine's coefficients: those of one class in one row, which add to one score.
struct VectorSegment {
  std::int64_t first = 0, count = 0;    // of the vectors
  const float* coefficients = nullptr;  // of `count` vectors
  std::int64_t score = 0;
};

// Vectors per panel; panels are [panel][feature][vector], with zeros behind the last vector.
inline constexpr std::int64_t kVectorPanel = 16;

class SupportVectors {
 public:
  // `vectors` is [plan.vectors, features]; segments are ordered by their first vector, and their coefficients must
  // outlive this object.
  SupportVectors(const ops::SvmPlan& plan, const std::vector<float>& vectors, std::int64_t features,
                 std::vector<VectorSegment> segments, std::int64_t scores);

  std::int64_t features() const { return features_; }
  std::int64_t scores() const { return scores_; }
  // Multiplications per row.
  std::int64_t cost() const { return (weights_.empty() ? plan_.vectors : scores_) * (features_ + 8); }
  // Adds to scores[row][segment.score], with scores() numbers per row.
  void add_scores(const float* x, std::int64_t rows, double* scores) const;

 private:
  void fold(const std::vector<float>& vectors);

  ops::SvmPlan plan_;
  std::int64_t features_;
  std::vector<VectorSegment> segments_;
  std::int64_t scores_;
  std::vector<float> panels_;
  std::vector<double> weights_;  // linear kernel: all vectors of a score merged, [scores, features]
};

}  // namespace tessera::backends::cpu
