// Softmax and normalisations along the last axis: one block of 256 threads per row of a [rows, columns] matrix, whose
// rows follow each other. Sums are float, from the types of the suffixes: f32, f16, bf16.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/rows/rows_parameters.h"

namespace tessera::cuda {

extern "C" {
__global__ void softmax_f32(SoftmaxParameters p);
__global__ void softmax_f16(SoftmaxParameters p);
__global__ void softmax_bf16(SoftmaxParameters p);
__global__ void layer_normalisation_f32(NormalisationParameters p);
__global__ void layer_normalisation_f16(NormalisationParameters p);
__global__ void layer_normalisation_bf16(NormalisationParameters p);
__global__ void rms_normalisation_f32(NormalisationParameters p);
__global__ void rms_normalisation_f16(NormalisationParameters p);
__global__ void rms_normalisation_bf16(NormalisationParameters p);
}

}  // namespace tessera::cuda
