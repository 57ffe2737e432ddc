// Decision forests of ai.onnx.ml: TreeEnsemble and its forerunners TreeEnsembleClassifier and TreeEnsembleRegressor.
#pragma once

#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef tree_ensemble;
extern const OpDef tree_ensemble_classifier;
extern const OpDef tree_ensemble_regressor;

enum class Comparison : std::uint8_t { less_equal, less, greater_equal, greater, equal, not_equal, member };
enum class Aggregation : std::uint8_t { average, sum, minimum, maximum };
enum class PostTransform : std::uint8_t { none, softmax, logistic, softmax_zero, probit };
// From "NONE", "SOFTMAX" …; throws Error(invalid_model).
PostTransform post_transform_named(const std::string& name);

// The common, checked form of all three operators: every index is in range, and every walk from a root ends.
struct Forest {
  // A child >= 0 is a node, a negative one leaf number -1 - child.
  struct Node {
    Comparison comparison = Comparison::less_equal;
    bool missing_is_true = false;  // the branch that NaN takes
    std::int64_t feature = 0;
    double split = 0;
    std::size_t first_member = 0, last_member = 0;  // of members, for Comparison::member
    std::int64_t when_true = 0, when_false = 0;
  };
  struct Vote {
    std::int64_t target = 0;
    double weight = 0;
  };
  struct Leaf {
    std::size_t first_vote = 0, last_vote = 0;
  };

  std::vector<Node> nodes;
  std::vector<Leaf> leaves;
  std::vector<Vote> votes;
  std::vector<std::int64_t> roots;  // children, as in Node
  std::vector<double> members;
  std::vector<double> base_values;  // empty, or one per target
  std::int64_t targets = 1;
  std::int64_t features = 0;  // number of input columns that nodes read, at most
  Aggregation aggregation = Aggregation::sum;
  PostTransform post_transform = PostTransform::none;
};

// Throws Error(invalid_model).
Forest read_forest(const AttributeReader& reader);

}  // namespace tessera::ops
