// Products with a matrix of weights in the form that takes what stands around them into itself (ops/products/linear.h).
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace tessera::passes {

inline constexpr std::string_view kLinear = "tessera::Linear";

// The node as tessera::Linear: MatMul, TransposedMatMul and Gemm in float32 with weights [inputs, outputs] (or
// transposed) of known sizes, constant or not, at most a bias of one number an output, and no factors. A Linear is what
// it is; nothing where there is no such form.
std::optional<ir::Node> as_linear(const ir::Graph& graph, const ir::Node& node);

// The outputs of a Linear, of bytes or of real numbers; unknown while its weights' rank is.
ir::Dim outputs_of_linear(const ir::Graph& graph, const ir::Node& linear);

}  // namespace tessera::passes
