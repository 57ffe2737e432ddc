// Kernel names by element type, grids and streams, for the launches of several families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/backend.h"
#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/kernels/element_wise/typed_parameters.h"

namespace tessera::backends::cuda {

// The suffix of kernels for the type, "f32"; "" for types that no kernel computes in.
std::string_view suffix_of(DType type);

// How kernels that take their elements' type as a parameter name it; nullopt for types that they do not take.
std::optional<tessera::cuda::StoredType> element_type_of(DType type);

// Blocks of `unit` that cover `count`.
unsigned blocks_of(std::int64_t count, std::int64_t unit);

// Why the kernel cannot run on the device: the program holds no device code of it; "" if it can.
std::string reason_without_image(std::string_view kernel, const DeviceProperties& device);

// The stream of the run, as one of a GPU's.
CudaStream& stream_of(const KernelContext& context);

}  // namespace tessera::backends::cuda
