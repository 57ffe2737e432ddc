// What products/kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the
// file's stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// linear
std::string reject_linear(const ops::NodeView& view);
KernelPointer make_linear(const ops::NodeView& view, WeightStore& weights);
std::string reject_linear_of_few_rows(const ops::NodeView& view);
std::string avoid_linear_of_few_rows(const ops::NodeView& view);
KernelPointer make_linear_of_few_rows(const ops::NodeView& view, WeightStore& weights);
std::string reject_channels_last_pointwise(const ops::NodeView& view);
KernelPointer make_channels_last_pointwise(const ops::NodeView& view, WeightStore& weights);

// matmul
KernelPointer make_matmul(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm(const ops::NodeView& view, WeightStore& weights);

// matmul_integer
std::string reject_matmul_integer(const ops::NodeView& view);
std::string reject_qlinear_matmul(const ops::NodeView& view);
KernelPointer make_matmul_integer(const ops::NodeView& view, WeightStore& weights);

// matmul_n_bits
std::string reject_matmul_n_bits(const ops::NodeView& view);
KernelPointer make_matmul_n_bits(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
