// Whether a device can compute a node in bfloat16.
#pragma once

#include "passes/pass.h"

namespace tessera::passes {

// Whether the node is an LSTM or GRU, whose standard forms take and return bfloat16.
bool is_recurrent(const ir::Node& node);
// Whether the node is ONNX's Attention, whose Q, K and V, and then its result, may be bfloat16.
bool is_attention(const ir::Node& node);
inline constexpr std::size_t kAttentionOperands = 3;

// Whether the device has a kernel for the node when its float operands and results (for Attention: Q, K, V and the
// results) are bfloat16, whatever they are in the graph. Unknown dimensions count as 1; false while a rank is unknown.
bool has_bf16_kernel(const ir::Graph& graph, const ir::Node& node, const PassContext& context);

}  // namespace tessera::passes
