#include "backends/cpu/trees/kernel_table.h"

#include "backends/cpu/trees/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> tree_kernels() {
  static const KernelEntry table[] = {
      // tree_ensemble
      {.op = "ai.onnx.ml::TreeEnsemble",
       .name = "cpu_tree_ensemble",
       .reject = reject_tree_ensemble,
       .create = make_tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleClassifier",
       .name = "cpu_tree_ensemble",
       .reject = reject_tree_ensemble,
       .create = make_tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleRegressor",
       .name = "cpu_tree_ensemble",
       .reject = reject_tree_ensemble,
       .create = make_tree_ensemble},
  };
  return table;
}

}  // namespace tessera::backends::cpu
