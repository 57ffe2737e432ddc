// The kernels of src/backends/cuda/kernels by name, as functions that the emulation runs.
#pragma once

#include <span>
#include <string_view>

#include "emulation/launch.h"

namespace tessera::cuda {

struct EmulatedKernel {
  std::string_view name;
  emulation::PackedKernel call;
  std::span<const emulation::ParameterLayout> parameters;  // in order
};

std::span<const EmulatedKernel> emulated_kernels();
// Throws std::out_of_range for a name that is not in the table.
const EmulatedKernel& emulated_kernel(std::string_view name);

}  // namespace tessera::cuda
