#include "ops/rows/op_table.h"

#include "ops/rows/arg_max.h"
#include "ops/rows/batch_norm_training.h"
#include "ops/rows/cumulative.h"
#include "ops/rows/dft.h"
#include "ops/rows/embed_layer_normalisation.h"
#include "ops/rows/layer_normalisation_gradient.h"
#include "ops/rows/normalisation.h"
#include "ops/rows/reduction.h"
#include "ops/rows/select.h"
#include "ops/rows/skip_normalisation.h"
#include "ops/rows/softmax.h"

namespace tessera::ops {

std::span<const OpDef* const> row_ops() {
  static constexpr const OpDef* table[] = {
      // layer_normalisation_gradient
      &layer_normalization_gradient,
      &rms_normalization_gradient,
      // batch_norm_training
      &batch_norm_training,
      &batch_norm_training_gradient,
      // normalisation
      &batch_normalization,
      &layer_normalization,
      &rms_normalization,
      &group_normalization,
      &instance_normalization,
      &lp_normalization,
      &mean_variance_normalization,
      &lrn,
      // embed_layer_normalisation
      &embed_layer_normalization,
      &q_embed_layer_normalization,
      // skip_normalisation
      &skip_layer_normalization,
      &skip_simplified_layer_normalization,
      // select
      &compress,
      &non_zero,
      &unique,
      &top_k,
      // dft
      &dft,
      &stft,
      // softmax
      &softmax,
      &log_softmax,
      &hardmax,
      // reduction
      &reduce_l1,
      &reduce_l2,
      &reduce_log_sum,
      &reduce_log_sum_exp,
      &reduce_max,
      &reduce_mean,
      &reduce_min,
      &reduce_prod,
      &reduce_sum,
      &reduce_sum_square,
      // arg_max
      &arg_max,
      &arg_min,
      // cumulative
      &cum_sum,
      &cum_prod,
  };
  return table;
}

}  // namespace tessera::ops
