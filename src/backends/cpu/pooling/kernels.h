// What pooling/kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the file's
// stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// max_pool_rows
std::string reject_max_pool_bytes(const ops::NodeView& view);
KernelPointer make_max_pool_bytes(const ops::NodeView& view, WeightStore& weights);
std::string reject_max_pool_bf16(const ops::NodeView& view);
KernelPointer make_max_pool_bf16(const ops::NodeView& view, WeightStore& weights);

// pooling
std::string reject_pool(const ops::NodeView& view);
std::string reject_global_pool(const ops::NodeView& view);
KernelPointer make_max_pool(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_average_pool(const ops::NodeView& view, WeightStore& weights);
void global_average_pool(KernelContext& context);
void global_max_pool(KernelContext& context);

}  // namespace tessera::backends::cpu
