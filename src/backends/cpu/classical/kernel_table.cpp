#include "backends/cpu/classical/kernel_table.h"

#include "backends/cpu/classical/kernels.h"
#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> classical_kernels() {
  static const KernelEntry table[] = {
      // categories
      {.op = "ai.onnx.ml::LabelEncoder",
       .name = "cpu_label_encoder",
       .reject = reject_label_encoder,
       .create = make_label_encoder},
      {.op = "ai.onnx.ml::OneHotEncoder",
       .name = "cpu_one_hot_encoder",
       .reject = reject_one_hot_encoder,
       .create = make_one_hot_encoder},
      // feature_rows_f32
      {.op = "ai.onnx.ml::Normalizer",
       .name = "cpu_normalizer",
       .reject = reject_unless_f32,
       .function = normalise_features,
       .in_place_inputs = 1},
      {.op = "ai.onnx.ml::Scaler",
       .name = "cpu_scaler",
       .reject = reject_unless_f32,
       .function = scale_features,
       .in_place_inputs = 1},
      // linear_model_f32
      {.op = "ai.onnx.ml::LinearClassifier",
       .name = "cpu_linear_classifier",
       .reject = reject_unless_f32,
       .create = make_linear_classifier_f32},
      {.op = "ai.onnx.ml::LinearRegressor",
       .name = "cpu_linear_regressor",
       .reject = reject_unless_f32,
       .create = make_linear_regressor_f32},
      // squared_distances_f32
      {.op = "tessera::SquaredDistances",
       .name = "cpu_squared_distances",
       .reject = reject_squared_distances,
       .create = make_squared_distances_f32},
      // support_vector_machine_f32
      {.op = "ai.onnx.ml::SVMClassifier",
       .name = "cpu_svm_classifier",
       .reject = reject_support_vectors,
       .create = make_svm_classifier_f32},
      {.op = "ai.onnx.ml::SVMRegressor",
       .name = "cpu_svm_regressor",
       .reject = reject_support_vectors,
       .create = make_svm_regressor_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
