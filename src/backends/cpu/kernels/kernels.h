// What kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the file's stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

using KernelPointer = std::unique_ptr<Kernel>;

// element_wise_unary
std::string reject_unless_f32(const ops::NodeView& view);  // looks at input 0
std::unique_ptr<Kernel> make_element_wise_unary(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<Kernel> make_clip(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<Kernel> make_gelu(const ops::NodeView& view, WeightStore& weights);

// conv
KernelPointer make_conv(const ops::NodeView& view, WeightStore& weights);

// conv_depthwise
std::string reject_depthwise_conv(const ops::NodeView& view);
KernelPointer make_depthwise_conv(const ops::NodeView& view, WeightStore& weights);

// matmul
KernelPointer make_matmul(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm(const ops::NodeView& view, WeightStore& weights);

// pooling
std::string reject_pool(const ops::NodeView& view);
std::string reject_global_pool(const ops::NodeView& view);
KernelPointer make_max_pool(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_average_pool(const ops::NodeView& view, WeightStore& weights);
void global_average_pool(KernelContext& context);
void global_max_pool(KernelContext& context);

// concat
void concat(KernelContext& context);
void split(KernelContext& context);

// expand
std::unique_ptr<Kernel> make_expand(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<Kernel> make_tile(const ops::NodeView& view, WeightStore& weights);

// gather
std::unique_ptr<Kernel> make_gather(const ops::NodeView& view, WeightStore& weights);
std::string reject_gather_elements(const ops::NodeView& view);
void gather_elements(KernelContext& context);

// movement
std::string reject_unless_bytes(const ops::NodeView& view);  // looks at input 0

// pad
std::string reject_pad(const ops::NodeView& view);
std::unique_ptr<Kernel> make_pad(const ops::NodeView& view, WeightStore& weights);

// slice
std::unique_ptr<Kernel> make_slice(const ops::NodeView& view, WeightStore& weights);

// transpose
std::unique_ptr<Kernel> make_transpose(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<Kernel> make_depth_to_space(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<Kernel> make_space_to_depth(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
