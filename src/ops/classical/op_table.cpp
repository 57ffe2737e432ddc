#include "ops/classical/op_table.h"

#include "ops/classical/feature.h"
#include "ops/classical/feature_transform.h"
#include "ops/classical/linear_model.h"
#include "ops/classical/squared_distances.h"
#include "ops/classical/tf_idf_vectorizer.h"
#include "ops/classical/tree_ensemble.h"

namespace tessera::ops {

std::span<const OpDef* const> classical_ops() {
  static constexpr const OpDef* table[] = {
      // tree_ensemble
      &tree_ensemble,
      &tree_ensemble_classifier,
      &tree_ensemble_regressor,
      // feature_transform
      &scaler,
      &normalizer,
      &imputer,
      &one_hot_encoder,
      &feature_vectorizer,
      &category_mapper,
      // linear_model
      &linear_regressor,
      &linear_classifier,
      &svm_regressor,
      &svm_classifier,
      // squared_distances
      &squared_distances,
      // tf_idf_vectorizer
      &tf_idf_vectorizer,
      // feature
      &label_encoder,
      &array_feature_extractor,
      &binarizer,
  };
  return table;
}

}  // namespace tessera::ops
