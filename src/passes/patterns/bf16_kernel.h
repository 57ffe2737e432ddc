// What a device computes in bfloat16, asked before a node is put so.
#pragma once

#include "passes/pass.h"

namespace tessera::passes {

// LSTM and GRU, which have a standard form with operands and results of bfloat16.
bool is_recurrent(const ir::Node& node);
// ONNX's Attention, whose Q, K and V may be bfloat16, and its result then.
bool is_attention(const ir::Node& node);
inline constexpr std::size_t kAttentionOperands = 3;

// Whether the device has a kernel for the node when its floats (of attention: its operands and its result) are
// bfloat16, whatever they are now. Dimensions that are not known yet are taken for some.
bool has_bf16_kernel(const ir::Graph& graph, const ir::Node& node, const PassContext& context);

}  // namespace tessera::passes
