#include "backends/reference/kernels/rows/kernel_table.h"

#include "backends/reference/kernels/rows/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> row_kernels() {
  static const KernelEntry table[] = {
      // layer_normalisation_gradient
      {.op = "tessera::LayerNormalizationGradient",
       .name = "reference_layer_normalization_gradient",
       .function = layer_normalization_gradient},
      {.op = "tessera::RMSNormalizationGradient",
       .name = "reference_rms_normalization_gradient",
       .function = rms_normalization_gradient},
      // batch_norm_training
      {.op = "tessera::BatchNormTraining", .name = "reference_batch_norm_training", .function = batch_norm_training},
      {.op = "tessera::BatchNormTrainingGradient",
       .name = "reference_batch_norm_training_gradient",
       .function = batch_norm_training_gradient},
      // normalisation
      {.op = "BatchNormalization", .name = "reference_batch_normalization", .function = batch_normalization},
      {.op = "LayerNormalization", .name = "reference_layer_normalization", .function = layer_normalization},
      {.op = "RMSNormalization", .name = "reference_rms_normalization", .function = rms_normalization},
      {.op = "GroupNormalization", .name = "reference_group_normalization", .function = group_normalization},
      {.op = "InstanceNormalization", .name = "reference_instance_normalization", .function = instance_normalization},
      {.op = "LpNormalization", .name = "reference_lp_normalization", .function = lp_normalization},
      {.op = "MeanVarianceNormalization",
       .name = "reference_mean_variance_normalization",
       .function = mean_variance_normalization},
      {.op = "LRN", .name = "reference_lrn", .function = lrn},
      // select
      {.op = "Compress", .name = "reference_compress", .function = compress},
      {.op = "NonZero", .name = "reference_non_zero", .function = non_zero},
      {.op = "Unique", .name = "reference_unique", .function = unique},
      {.op = "TopK", .name = "reference_top_k", .function = top_k},
      // dft
      {.op = "DFT", .name = "reference_dft", .function = dft},
      {.op = "STFT", .name = "reference_stft", .function = stft},
      // softmax
      {.op = "LogSoftmax", .name = "reference_log_softmax", .function = log_softmax},
      {.op = "Hardmax", .name = "reference_hardmax", .function = hardmax},
      {.op = "Softmax", .name = "reference_softmax", .function = softmax},
      // reduction
      {.op = "ReduceL1", .name = "reference_reduce_l1", .function = reduce_l1},
      {.op = "ReduceL2", .name = "reference_reduce_l2", .function = reduce_l2},
      {.op = "ReduceLogSum", .name = "reference_reduce_log_sum", .function = reduce_log_sum},
      {.op = "ReduceLogSumExp", .name = "reference_reduce_log_sum_exp", .function = reduce_log_sum_exp},
      {.op = "ReduceMax", .name = "reference_reduce_max", .function = reduce_max},
      {.op = "ReduceMean", .name = "reference_reduce_mean", .function = reduce_mean},
      {.op = "ReduceMin", .name = "reference_reduce_min", .function = reduce_min},
      {.op = "ReduceProd", .name = "reference_reduce_prod", .function = reduce_prod},
      {.op = "ReduceSum", .name = "reference_reduce_sum", .function = reduce_sum},
      {.op = "ReduceSumSquare", .name = "reference_reduce_sum_square", .function = reduce_sum_square},
      // arg_max
      {.op = "ArgMax", .name = "reference_arg_max", .function = arg_max},
      {.op = "ArgMin", .name = "reference_arg_min", .function = arg_min},
      // cumulative
      {.op = "CumSum", .name = "reference_cum_sum", .function = cum_sum},
      {.op = "CumProd", .name = "reference_cum_prod", .function = cum_prod},
  };
  return table;
}

}  // namespace tessera::backends::reference
