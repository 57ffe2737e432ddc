// Products with a matrix of weights as tessera::Linear, into which surrounding operators can be fused
// (ops/products/linear.h).
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace tessera::passes {

inline constexpr std::string_view kLinear = "tessera::Linear";

// The node as tessera::Linear, for MatMul, TransposedMatMul and Gemm in float32 with weights [inputs, outputs] (or
// transposed) of known sizes, constant or not, at most a bias of one number per output, and no factors. A Linear is
// returned as it is; nothing where there is no such form.
std::optional<ir::Node> as_linear(const ir::Graph& graph, const ir::Node& node);

// The number of outputs of a Linear, 8-bit or real; unknown while its weights' rank is.
ir::Dim outputs_of_linear(const ir::Graph& graph, const ir::Node& linear);

}  // namespace tessera::passes
