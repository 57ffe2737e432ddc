#include "backends/cuda/kernels/kernel_table.h"

#include <stdexcept>
#include <string>

#include "backends/cuda/kernels/element_wise/program.h"
#include "backends/cuda/kernels/products/product.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/kernels/windows/windows.h"

namespace tessera::cuda {
namespace {

template <auto kKernel>
using Call = emulation::Packed<kKernel>;

constexpr EmulatedKernel kKernels[] = {
    {"product_tiles_f32", &Call<&product_tiles_f32>::call},
    {"product_tiles_f16", &Call<&product_tiles_f16>::call},
    {"product_tiles_bf16", &Call<&product_tiles_bf16>::call},
    {"product_tiles_s8", &Call<&product_tiles_s8>::call},
    {"product_wmma_f16", &Call<&product_wmma_f16>::call},
    {"product_wmma_bf16", &Call<&product_wmma_bf16>::call},
    {"product_wmma_s8", &Call<&product_wmma_s8>::call},
    {"product_mma_f16", &Call<&product_mma_f16>::call},
    {"product_mma_bf16", &Call<&product_mma_bf16>::call},
    {"product_mma_tf32", &Call<&product_mma_tf32>::call},
    {"product_mma_s8", &Call<&product_mma_s8>::call},
    {"product_wgmma_f16", &Call<&product_wgmma_f16>::call},
    {"product_wgmma_bf16", &Call<&product_wgmma_bf16>::call},
    {"product_wgmma_s8", &Call<&product_wgmma_s8>::call},
    {"product_splits_f32", &Call<&product_splits_f32>::call},
    {"product_splits_f16", &Call<&product_splits_f16>::call},
    {"product_splits_bf16", &Call<&product_splits_bf16>::call},
    {"product_splits_s8", &Call<&product_splits_s8>::call},
    {"softmax_f32", &Call<&softmax_f32>::call},
    {"softmax_f16", &Call<&softmax_f16>::call},
    {"softmax_bf16", &Call<&softmax_bf16>::call},
    {"layer_normalisation_f32", &Call<&layer_normalisation_f32>::call},
    {"layer_normalisation_f16", &Call<&layer_normalisation_f16>::call},
    {"layer_normalisation_bf16", &Call<&layer_normalisation_bf16>::call},
    {"rms_normalisation_f32", &Call<&rms_normalisation_f32>::call},
    {"rms_normalisation_f16", &Call<&rms_normalisation_f16>::call},
    {"rms_normalisation_bf16", &Call<&rms_normalisation_bf16>::call},
    {"element_program_f32", &Call<&element_program_f32>::call},
    {"element_program_f16", &Call<&element_program_f16>::call},
    {"element_program_bf16", &Call<&element_program_bf16>::call},
    {"conv_direct_f32", &Call<&conv_direct_f32>::call},
    {"conv_direct_f16", &Call<&conv_direct_f16>::call},
    {"conv_direct_bf16", &Call<&conv_direct_bf16>::call},
    {"pooling_f32", &Call<&pooling_f32>::call},
    {"pooling_f16", &Call<&pooling_f16>::call},
    {"pooling_bf16", &Call<&pooling_bf16>::call},
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
