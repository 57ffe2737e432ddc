#include "backends/reference/kernels/training/kernel_table.h"

#include "backends/reference/kernels/training/kernels.h"
#include "ops/training/optimiser_step.h"
#include "ops/training/row_optimiser_step.h"

namespace tessera::backends::reference {
namespace {

// The optimisers' inputs are a rate, a count and then `groups` lists of tensors: parameters, gradients and states.
// Their outputs are the lists without the gradients, each of which may be written over its own input.
template <std::size_t groups>
bool updates_operand(const ir::Node& node, std::size_t output, std::size_t input) {
  const std::size_t count = (node.inputs.size() - 2) / groups;
  const std::size_t skipped = output < count ? 2 : 2 + count;
  return input == output + skipped;
}

}  // namespace

std::span<const KernelEntry> training_kernels() {
  static const KernelEntry table[] = {
      // loss
      {.op = "NegativeLogLikelihoodLoss",
       .name = "reference_negative_log_likelihood_loss",
       .function = negative_log_likelihood_loss},
      {.op = "SoftmaxCrossEntropyLoss",
       .name = "reference_softmax_cross_entropy_loss",
       .function = softmax_cross_entropy_loss},
      // ctc_loss
      {.op = "tessera::CtcLoss", .name = "reference_ctc_loss", .function = ctc_loss},
      // softmax_cross_entropy
      {.op = "tessera::SoftmaxCrossEntropy",
       .name = "reference_softmax_cross_entropy",
       .function = softmax_cross_entropy},
      {.op = "tessera::SoftmaxCrossEntropyGradient",
       .name = "reference_softmax_cross_entropy_gradient",
       .function = softmax_cross_entropy_gradient},
      // training_update
      {.op = "ai.onnx.preview.training::Adagrad",
       .name = "reference_adagrad",
       .function = adagrad,
       .in_place_pair = updates_operand<3>},
      {.op = "ai.onnx.preview.training::Adam",
       .name = "reference_adam",
       .function = adam,
       .in_place_pair = updates_operand<4>},
      {.op = "ai.onnx.preview.training::Momentum",
       .name = "reference_momentum",
       .function = momentum,
       .in_place_pair = updates_operand<3>},
      // global_norm
      {.op = "tessera::GlobalNorm", .name = "reference_global_norm", .function = global_norm},
      // micro_batch_sums
      {.op = "tessera::AddMicroBatch",
       .name = "reference_add_micro_batch",
       .function = add_micro_batch,
       .in_place_inputs = 1u << 2},
      {.op = "tessera::SumOverRanks", .name = "reference_sum_over_ranks", .create = make_sum_over_ranks},
      {.op = "tessera::GatherOverRanks", .name = "reference_gather_over_ranks", .create = make_gather_over_ranks},
      // optimiser_step
      {.op = "tessera::OptimiserStep",
       .name = "reference_optimiser_step",
       .function = optimiser_step,
       .in_place_pair = ops::optimiser_updates_in_place},
      {.op = "tessera::RowOptimiserStep",
       .name = "reference_row_optimiser_step",
       .function = row_optimiser_step,
       .in_place_pair = ops::row_step_updates_in_place},
  };
  return table;
}

}  // namespace tessera::backends::reference
