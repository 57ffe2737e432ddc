// Gathering and scattering by indices. Suffixes are the bits of an element.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/movement/gather_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element of the values. Where several are scattered to one place,
// any of them stays.
extern "C" {
__global__ void gather_8(const __grid_constant__ GatherParameters p);
__global__ void gather_16(const __grid_constant__ GatherParameters p);
__global__ void gather_32(const __grid_constant__ GatherParameters p);
__global__ void gather_64(const __grid_constant__ GatherParameters p);
__global__ void scatter_8(const __grid_constant__ GatherParameters p);
__global__ void scatter_16(const __grid_constant__ GatherParameters p);
__global__ void scatter_32(const __grid_constant__ GatherParameters p);
__global__ void scatter_64(const __grid_constant__ GatherParameters p);
__global__ void gather_elements_8(const __grid_constant__ GatherElementsParameters p);
__global__ void gather_elements_16(const __grid_constant__ GatherElementsParameters p);
__global__ void gather_elements_32(const __grid_constant__ GatherElementsParameters p);
__global__ void gather_elements_64(const __grid_constant__ GatherElementsParameters p);
__global__ void scatter_elements_8(const __grid_constant__ GatherElementsParameters p);
__global__ void scatter_elements_16(const __grid_constant__ GatherElementsParameters p);
__global__ void scatter_elements_32(const __grid_constant__ GatherElementsParameters p);
__global__ void scatter_elements_64(const __grid_constant__ GatherElementsParameters p);
}

}  // namespace tessera::cuda
