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

// matmul
KernelPointer make_matmul(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
