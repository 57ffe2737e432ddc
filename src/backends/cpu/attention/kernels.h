// The functions, factories and reject rules that attention/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// attention
std::string reject_attention_f32(const ops::NodeView& view);
KernelPointer make_attention_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_attention_bf16(const ops::NodeView& view);
KernelPointer make_attention_bf16(const ops::NodeView& view, WeightStore& weights);

// attention_gradient
std::string reject_attention_gradient(const ops::NodeView& view);
KernelPointer make_attention_gradient(const ops::NodeView& view, WeightStore& weights);

// paged_cache
KernelPointer make_cache_attention(const ops::NodeView& view, WeightStore& weights);

// group_query_attention
std::string reject_group_query_attention(const ops::NodeView& view);
KernelPointer make_group_query_attention(const ops::NodeView& view, WeightStore& weights);

// append_rows
void append_rows(KernelContext& context);

// rotary_embedding
std::string reject_rotary_embedding_f32(const ops::NodeView& view);
void rotary_embedding_f32(KernelContext& context);

}  // namespace tessera::backends::cpu
