// The functions, factories and reject rules that products/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// linear_f32, linear_bf16, linear_s8
std::string reject_linear_f32(const ops::NodeView& view);
KernelPointer make_linear_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_indirect_linear_f32(const ops::NodeView& view);
KernelPointer make_indirect_linear_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_linear_bf16(const ops::NodeView& view);
KernelPointer make_linear_bf16(const ops::NodeView& view, WeightStore& weights);
std::string reject_linear_s8(const ops::NodeView& view);
KernelPointer make_linear_s8(const ops::NodeView& view, WeightStore& weights);

// linear_few_rows_f32
std::string reject_linear_few_rows_f32(const ops::NodeView& view);
std::string avoid_linear_few_rows_f32(const ops::NodeView& view);
KernelPointer make_linear_few_rows_f32(const ops::NodeView& view, WeightStore& weights);

// sparse_linear_s8
std::string reject_sparse_linear_s8(const ops::NodeView& view);
std::string avoid_sparse_linear_s8(const ops::NodeView& view);
KernelPointer make_sparse_linear_s8(const ops::NodeView& view, WeightStore& weights);

// sparse_linear
std::string reject_sparse_linear_f32(const ops::NodeView& view);
std::string reject_sparse_linear_bf16(const ops::NodeView& view);
std::string avoid_sparse_linear(const ops::NodeView& view);
KernelPointer make_sparse_linear(const ops::NodeView& view, WeightStore& weights);

// matmul_f32
KernelPointer make_matmul_f32(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm_f32(const ops::NodeView& view, WeightStore& weights);

// matmul_typed
std::string reject_matmul_typed(const ops::NodeView& view);
std::string reject_gemm_typed(const ops::NodeView& view);
KernelPointer make_matmul_typed(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm_typed(const ops::NodeView& view, WeightStore& weights);

// packed_block_linear
std::string reject_packed_block_linear(const ops::NodeView& view);
KernelPointer make_packed_block_linear(const ops::NodeView& view, WeightStore& weights);

// matmul_s8
std::string reject_matmul_s8(const ops::NodeView& view);
std::string reject_qlinear_matmul_s8(const ops::NodeView& view);
KernelPointer make_matmul_s8(const ops::NodeView& view, WeightStore& weights);

// block_linear
KernelPointer make_block_linear(const ops::NodeView& view, WeightStore& weights);

// packed_matmul_n_bits
std::string reject_packed_matmul_n_bits(const ops::NodeView& view);
KernelPointer make_packed_matmul_n_bits(const ops::NodeView& view, WeightStore& weights);
// matmul_n_bits
std::string reject_matmul_n_bits(const ops::NodeView& view);
KernelPointer make_matmul_n_bits(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
