// Large constants that are computed from constants in a file when they are read; for weights, that is when kernels pack
// them (ADR 0010).
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"

namespace tessera::passes {

// The deferred result of a node on constants: a Cast of narrower numbers to f32, a DequantizeLinear to f32, or the sum,
// difference or product with one f32 number or with one per index of an axis. Nothing for other nodes, for small
// results, and for operands that are neither in a file nor deferred.
std::optional<Tensor> deferred_result(const ir::Node& node, std::span<const Value> inputs);

// The taps in a box of weights [outputs, inputs, kernel…]: `kernel` taps of each axis from `first` on.
Tensor box_of_taps(const Tensor& weights, std::span<const std::int64_t> first, std::span<const std::int64_t> kernel);

// An f32 constant rounded to bfloat16.
Tensor rounded_to_bf16(const Tensor& source);

}  // namespace tessera::passes
