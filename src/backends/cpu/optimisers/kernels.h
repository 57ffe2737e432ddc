// The functions, factories and reject rules that optimisers/kernel_table.cpp lists, grouped by the stem of the file
// that defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// global_norm
std::string reject_global_norm(const ops::NodeView& view);
KernelPointer make_global_norm(const ops::NodeView& view, WeightStore& weights);

// optimiser_step
std::string reject_optimiser_step(const ops::NodeView& view);
KernelPointer make_optimiser_step(const ops::NodeView& view, WeightStore& weights);

// row_optimiser_step
std::string reject_row_optimiser_step(const ops::NodeView& view);
KernelPointer make_row_optimiser_step(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
