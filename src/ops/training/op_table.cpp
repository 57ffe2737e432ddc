#include "ops/training/op_table.h"

#include "ops/training/ctc_loss.h"
#include "ops/training/global_norm.h"
#include "ops/training/loss.h"
#include "ops/training/micro_batch_sums.h"
#include "ops/training/optimiser_step.h"
#include "ops/training/row_optimiser_step.h"
#include "ops/training/softmax_cross_entropy.h"
#include "ops/training/training_update.h"

namespace tessera::ops {

std::span<const OpDef* const> training_ops() {
  static constexpr const OpDef* table[] = {
      // loss
      &negative_log_likelihood_loss,
      &softmax_cross_entropy_loss,
      // ctc_loss
      &ctc_loss,
      // softmax_cross_entropy
      &softmax_cross_entropy,
      &softmax_cross_entropy_gradient,
      // training_update
      &adagrad,
      &adam,
      &momentum,
      // global_norm
      &global_norm,
      // micro_batch_sums
      &add_micro_batch,
      &sum_over_ranks,
      &gather_over_ranks,
      // optimiser_step
      &optimiser_step,
      // row_optimiser_step
      &row_optimiser_step,
  };
  return table;
}

}  // namespace tessera::ops
