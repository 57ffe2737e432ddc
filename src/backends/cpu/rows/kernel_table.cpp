#include "backends/cpu/rows/kernel_table.h"

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/rows/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> row_kernels() {
  static const KernelEntry table[] = {
      // arg_max
      {.op = "ArgMax", .name = "cpu_arg_max", .reject = reject_arg_max, .create = make_arg_max},
      {.op = "ArgMin", .name = "cpu_arg_min", .reject = reject_arg_max, .create = make_arg_max},
      // batch_norm_training
      {.op = "tessera::BatchNormTraining",
       .name = "cpu_batch_norm_training",
       .reject = reject_batch_norm_training,
       .create = make_batch_norm_training},
      // batch_norm_training_gradient
      {.op = "tessera::BatchNormTrainingGradient",
       .name = "cpu_batch_norm_training_gradient",
       .reject = reject_batch_norm_training_gradient,
       .create = make_batch_norm_training_gradient,
       .in_place_inputs = 3},
      // cumulative
      {.op = "CumSum", .name = "cpu_cum_sum", .reject = reject_cum_sum, .function = cum_sum},
      // dft
      {.op = "DFT", .name = "cpu_dft_f32", .reject = reject_dft, .function = dft},
      // layer_normalisation_gradient
      {.op = "tessera::LayerNormalizationGradient",
       .name = "cpu_layer_normalization_gradient",
       .reject = reject_row_gradient,
       .create = make_row_gradient,
       .in_place_inputs = 3},
      {.op = "tessera::RMSNormalizationGradient",
       .name = "cpu_rms_normalization_gradient",
       .reject = reject_row_gradient,
       .create = make_row_gradient,
       .in_place_inputs = 3},
      // normalisation
      {.op = "BatchNormalization",
       .name = "cpu_batch_normalization",
       .reject = reject_channel_normalisation,
       .create = make_batch_normalisation,
       .in_place_inputs = 1},
      {.op = "GroupNormalization",
       .name = "cpu_group_normalization",
       .reject = reject_channel_normalisation,
       .create = make_group_normalisation,
       .in_place_inputs = 1},
      {.op = "InstanceNormalization",
       .name = "cpu_instance_normalization",
       .reject = reject_channel_normalisation,
       .create = make_group_normalisation,
       .in_place_inputs = 1},
      {.op = "LayerNormalization",
       .name = "cpu_layer_normalization",
       .reject = reject_row_normalisation,
       .create = make_row_normalisation,
       .in_place_inputs = 1},
      {.op = "RMSNormalization",
       .name = "cpu_rms_normalization",
       .reject = reject_row_normalisation,
       .create = make_row_normalisation,
       .in_place_inputs = 1},
      // skip_normalisation
      {.op = "com.microsoft::EmbedLayerNormalization",
       .name = "cpu_embed_layer_normalization",
       .reject = reject_embedding,
       .create = make_embedding},
      {.op = "com.microsoft::SkipLayerNormalization",
       .name = "cpu_skip_layer_normalization",
       .reject = reject_skip_normalisation,
       .create = make_skip_normalisation,
       .in_place_inputs = 3},
      {.op = "com.microsoft::SkipSimplifiedLayerNormalization",
       .name = "cpu_skip_simplified_layer_normalization",
       .reject = reject_skip_normalisation,
       .create = make_skip_normalisation,
       .in_place_inputs = 3},
      // reduction
      {.op = "ReduceL1", .name = "cpu_reduce_l1", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceL2", .name = "cpu_reduce_l2", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceLogSum", .name = "cpu_reduce_log_sum", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMax", .name = "cpu_reduce_max", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMean", .name = "cpu_reduce_mean", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMin", .name = "cpu_reduce_min", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceProd", .name = "cpu_reduce_prod", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceSum", .name = "cpu_reduce_sum", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceSumSquare", .name = "cpu_reduce_sum_square", .reject = reject_reduction, .create = make_reduction},
      // softmax
      {.op = "LogSoftmax",
       .name = "cpu_log_softmax",
       .reject = reject_unless_f32,
       .create = make_softmax,
       .in_place_inputs = 1},
      {.op = "Softmax",
       .name = "cpu_softmax",
       .reject = reject_unless_f32,
       .create = make_softmax,
       .in_place_inputs = 1},
      // ctc_loss
      {.op = "tessera::CtcLoss", .name = "cpu_ctc_loss", .reject = reject_unless_f32, .function = ctc_loss},
      // softmax_cross_entropy
      {.op = "tessera::SoftmaxCrossEntropy",
       .name = "cpu_softmax_cross_entropy",
       .reject = reject_softmax_cross_entropy,
       .create = make_softmax_cross_entropy},
      {.op = "tessera::SoftmaxCrossEntropyGradient",
       .name = "cpu_softmax_cross_entropy_gradient",
       .reject = reject_softmax_cross_entropy_gradient,
       .create = make_softmax_cross_entropy_gradient,
       .in_place_inputs = 2},
      // top_k
      {.op = "TopK", .name = "cpu_top_k", .reject = reject_top_k, .function = top_k},
  };
  return table;
}

}  // namespace tessera::backends::cpu
