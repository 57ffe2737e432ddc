// Linear and support-vector models of ai.onnx.ml.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef linear_regressor;
extern const OpDef linear_classifier;
extern const OpDef svm_regressor;
extern const OpDef svm_classifier;

// The sizes of an SVM node, checked against the columns of its input.
struct SvmPlan {
  enum class Kernel : std::uint8_t { linear, poly, rbf, sigmoid } kernel = Kernel::linear;
  double gamma = 0, coefficient = 0, degree = 0;
  std::int64_t classes = 1;    // 1 for a regressor
  std::int64_t vectors = 0;    // 0: linear, one row of coefficients per class
  bool probabilities = false;  // prob_a and prob_b are given
};
// `features` is negative when unknown. Throws Error(invalid_model).
SvmPlan read_svm(const AttributeReader& reader, std::int64_t features);

}  // namespace tessera::ops
