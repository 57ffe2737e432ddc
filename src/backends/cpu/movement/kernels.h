// The functions, factories and reject rules that movement/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// block_gather
void block_gather(KernelContext& context);

// concat
void concat(KernelContext& context);
void split(KernelContext& context);

// expand
KernelPointer make_expand(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_tile(const ops::NodeView& view, WeightStore& weights);

// gather
KernelPointer make_gather(const ops::NodeView& view, WeightStore& weights);
std::string reject_gather(const ops::NodeView& view);
std::string reject_gather_elements(const ops::NodeView& view);
void gather_elements(KernelContext& context);

// movement
std::string reject_unless_bytes(const ops::NodeView& view);  // tests input 0

// pad
std::string reject_pad(const ops::NodeView& view);
KernelPointer make_pad(const ops::NodeView& view, WeightStore& weights);

// resize
std::string reject_resize(const ops::NodeView& view);
KernelPointer make_resize(const ops::NodeView& view, WeightStore& weights);

// resize_gradient
std::string reject_resize_gradient(const ops::NodeView& view);
KernelPointer make_resize_gradient(const ops::NodeView& view, WeightStore& weights);

// scatter_elements
std::string reject_scatter_elements(const ops::NodeView& view);
void scatter_elements(KernelContext& context);

// scatter_nd
std::string reject_scatter_nd(const ops::NodeView& view);
void scatter_nd(KernelContext& context);

// scatter_rows
std::string reject_scatter_rows(const ops::NodeView& view);
void scatter_rows(KernelContext& context);

// sum_rows
std::string reject_sum_rows(const ops::NodeView& view);
void sum_rows(KernelContext& context);

// slice
KernelPointer make_slice(const ops::NodeView& view, WeightStore& weights);

// transpose
KernelPointer make_transpose(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_depth_to_space(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_space_to_depth(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
