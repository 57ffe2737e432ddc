#include "backends/cuda/kernels/kernel_table.h"

#include <stdexcept>
#include <string>

#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/element_wise/program.h"
#include "backends/cuda/kernels/element_wise/typed.h"
#include "backends/cuda/kernels/movement/gather.h"
#include "backends/cuda/kernels/movement/pad.h"
#include "backends/cuda/kernels/movement/resize.h"
#include "backends/cuda/kernels/movement/strided_copy.h"
#include "backends/cuda/kernels/products/product.h"
#include "backends/cuda/kernels/quantisation/quantisation.h"
#include "backends/cuda/kernels/recurrent/recurrent.h"
#include "backends/cuda/kernels/reductions/reduction.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/kernels/rows/top_k.h"
#include "backends/cuda/kernels/windows/windows.h"

namespace tessera::cuda {
namespace {

template <auto kKernel>
constexpr EmulatedKernel named(std::string_view name) {
  using Kernel = emulation::Packed<kKernel>;
  return {name, &Kernel::call, Kernel::kParameters};
}

constexpr EmulatedKernel kKernels[] = {
    named<&product_tiles_f32>("product_tiles_f32"),
    named<&product_tiles_f16>("product_tiles_f16"),
    named<&product_tiles_bf16>("product_tiles_bf16"),
    named<&product_tiles_s8>("product_tiles_s8"),
    named<&product_wmma_f16>("product_wmma_f16"),
    named<&product_wmma_bf16>("product_wmma_bf16"),
    named<&product_wmma_s8>("product_wmma_s8"),
    named<&product_mma_f16>("product_mma_f16"),
    named<&product_mma_bf16>("product_mma_bf16"),
    named<&product_mma_tf32>("product_mma_tf32"),
    named<&product_mma_s8>("product_mma_s8"),
    named<&product_wgmma_f16>("product_wgmma_f16"),
    named<&product_wgmma_bf16>("product_wgmma_bf16"),
    named<&product_wgmma_s8>("product_wgmma_s8"),
    named<&product_splits_f32>("product_splits_f32"),
    named<&product_splits_f16>("product_splits_f16"),
    named<&product_splits_bf16>("product_splits_bf16"),
    named<&product_splits_s8>("product_splits_s8"),
    named<&softmax_f32>("softmax_f32"),
    named<&softmax_f16>("softmax_f16"),
    named<&softmax_bf16>("softmax_bf16"),
    named<&layer_normalisation_f32>("layer_normalisation_f32"),
    named<&layer_normalisation_f16>("layer_normalisation_f16"),
    named<&layer_normalisation_bf16>("layer_normalisation_bf16"),
    named<&rms_normalisation_f32>("rms_normalisation_f32"),
    named<&rms_normalisation_f16>("rms_normalisation_f16"),
    named<&rms_normalisation_bf16>("rms_normalisation_bf16"),
    named<&top_k_f32>("top_k_f32"),
    named<&top_k_f16>("top_k_f16"),
    named<&top_k_bf16>("top_k_bf16"),
    named<&top_k_i32>("top_k_i32"),
    named<&element_program_f32>("element_program_f32"),
    named<&element_program_f16>("element_program_f16"),
    named<&element_program_bf16>("element_program_bf16"),
    named<&strided_copy_8>("strided_copy_8"),
    named<&strided_copy_16>("strided_copy_16"),
    named<&strided_copy_32>("strided_copy_32"),
    named<&strided_copy_64>("strided_copy_64"),
    named<&conv_direct_f32>("conv_direct_f32"),
    named<&conv_direct_f16>("conv_direct_f16"),
    named<&conv_direct_bf16>("conv_direct_bf16"),
    named<&pooling_f32>("pooling_f32"),
    named<&pooling_f16>("pooling_f16"),
    named<&pooling_bf16>("pooling_bf16"),
    named<&lstm_step_f32>("lstm_step_f32"),
    named<&lstm_step_f16>("lstm_step_f16"),
    named<&lstm_step_bf16>("lstm_step_bf16"),
    named<&gru_step_f32>("gru_step_f32"),
    named<&gru_step_f16>("gru_step_f16"),
    named<&gru_step_bf16>("gru_step_bf16"),
    named<&initial_state_f32>("initial_state_f32"),
    named<&initial_state_f16>("initial_state_f16"),
    named<&initial_state_bf16>("initial_state_bf16"),
    named<&attention_f32>("attention_f32"),
    named<&attention_f16>("attention_f16"),
    named<&attention_bf16>("attention_bf16"),
    named<&pad_8>("pad_8"),
    named<&pad_16>("pad_16"),
    named<&pad_32>("pad_32"),
    named<&pad_64>("pad_64"),
    named<&resize_f32>("resize_f32"),
    named<&resize_f16>("resize_f16"),
    named<&resize_bf16>("resize_bf16"),
    named<&conv_transpose_f32>("conv_transpose_f32"),
    named<&conv_transpose_f16>("conv_transpose_f16"),
    named<&conv_transpose_bf16>("conv_transpose_bf16"),
    named<&gather_8>("gather_8"),
    named<&gather_16>("gather_16"),
    named<&gather_32>("gather_32"),
    named<&gather_64>("gather_64"),
    named<&scatter_8>("scatter_8"),
    named<&scatter_16>("scatter_16"),
    named<&scatter_32>("scatter_32"),
    named<&scatter_64>("scatter_64"),
    named<&gather_elements_8>("gather_elements_8"),
    named<&gather_elements_16>("gather_elements_16"),
    named<&gather_elements_32>("gather_elements_32"),
    named<&gather_elements_64>("gather_elements_64"),
    named<&scatter_elements_8>("scatter_elements_8"),
    named<&scatter_elements_16>("scatter_elements_16"),
    named<&scatter_elements_32>("scatter_elements_32"),
    named<&scatter_elements_64>("scatter_elements_64"),
    named<&reduce_f32>("reduce_f32"),
    named<&reduce_f16>("reduce_f16"),
    named<&reduce_bf16>("reduce_bf16"),
    named<&arg_extreme_f32>("arg_extreme_f32"),
    named<&arg_extreme_f16>("arg_extreme_f16"),
    named<&arg_extreme_bf16>("arg_extreme_bf16"),
    named<&quantize_linear>("quantize_linear"),
    named<&dequantize_linear>("dequantize_linear"),
    named<&convert_elements>("convert_elements"),
    named<&compare_f32>("compare_f32"),
    named<&compare_f16>("compare_f16"),
    named<&compare_bf16>("compare_bf16"),
    named<&compare_i32>("compare_i32"),
    named<&compare_i64>("compare_i64"),
    named<&logic_8>("logic_8"),
    named<&integer_i32>("integer_i32"),
    named<&integer_i64>("integer_i64"),
    named<&choose_8>("choose_8"),
    named<&choose_16>("choose_16"),
    named<&choose_32>("choose_32"),
    named<&choose_64>("choose_64"),
};

}  // namespace

std::span<const EmulatedKernel> emulated_kernels() {
  return kKernels;
}

const EmulatedKernel& emulated_kernel(std::string_view name) {
  for (const EmulatedKernel& kernel : kKernels) {
    if (kernel.name == name) return kernel;
  }
  throw std::out_of_range("no kernel '" + std::string(name) + "' in the emulation");
}

}  // namespace tessera::cuda
