// Element-wise programs: a list of instructions on registers, interpreted for each element. It serves where the
// driver's compiler is not at hand to compile the program itself.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/element_wise/program_parameters.h"

namespace tessera::cuda {

// Inputs and output are of the suffix's type, arithmetic is float. One thread takes every (grid × 256)-th element.
extern "C" {
__global__ void element_program_f32(const __grid_constant__ ElementProgram p);
__global__ void element_program_f16(const __grid_constant__ ElementProgram p);
__global__ void element_program_bf16(const __grid_constant__ ElementProgram p);
}

}  // namespace tessera::cuda
