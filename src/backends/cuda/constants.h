// Constant operands of kernels in the device's memory.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace tessera::backends::cuda {

// The constant's own bytes.
std::shared_ptr<const PackedWeights> pack_as_is(WeightStore& weights, const Tensor& constant);
// A constant of f32, f16 or bf16 as float32, as epilogues read bias.
std::shared_ptr<const PackedWeights> pack_as_floats(WeightStore& weights, const Tensor& constant);
// A matrix [depth, columns] as [columns, depth].
std::shared_ptr<const PackedWeights> pack_transposed(WeightStore& weights, const Tensor& constant);

}  // namespace tessera::backends::cuda
