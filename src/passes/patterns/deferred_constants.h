// Large constants that are made of constants in a file, computed when they are read, which for weights is while kernels
// pack them (ADR 0010).
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"

namespace tessera::passes {

// The result of a node that computes with constants: a Cast of narrower numbers to f32, a DequantizeLinear to f32, or
// the sum, difference or product with f32 numbers of which there is one in all or one for each index of an axis.
// Nothing for other nodes, small results, and what lies in no file and is not deferred.
std::optional<Tensor> deferred_result(const ir::Node& node, std::span<const Value> inputs);

// Of weights [outputs, inputs, kernel…], those of the taps in a box: `kernel` taps of each axis from `first` on.
Tensor box_of_taps(const Tensor& weights, std::span<const std::int64_t> first, std::span<const std::int64_t> kernel);

// An f32 constant rounded to bfloat16.
Tensor rounded_to_bf16(const Tensor& source);

}  // namespace tessera::passes
