// Element-wise operators on bools and integers, comparisons, choices and conversions.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/element_wise/typed_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element. convert_elements: integers wrap; real numbers are truncated to
// integers, and those outside the range of an integer type give any value. compare_*: operands of the type, bools as
// results. logic_8: of bools. integer_*: arithmetic. choose_*: elements of that many bits.
extern "C" {
__global__ void convert_elements(CastParameters p);
__global__ void compare_f32(const __grid_constant__ TypedParameters p);
__global__ void compare_f16(const __grid_constant__ TypedParameters p);
__global__ void compare_bf16(const __grid_constant__ TypedParameters p);
__global__ void compare_i32(const __grid_constant__ TypedParameters p);
__global__ void compare_i64(const __grid_constant__ TypedParameters p);
__global__ void logic_8(const __grid_constant__ TypedParameters p);
__global__ void integer_i32(const __grid_constant__ TypedParameters p);
__global__ void integer_i64(const __grid_constant__ TypedParameters p);
__global__ void choose_8(const __grid_constant__ TypedParameters p);
__global__ void choose_16(const __grid_constant__ TypedParameters p);
__global__ void choose_32(const __grid_constant__ TypedParameters p);
__global__ void choose_64(const __grid_constant__ TypedParameters p);
}

}  // namespace tessera::cuda
