// The functions, factories and reject rules that quantisation/kernel_table.cpp lists, grouped by the stem of the file
// that defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// add_s8
std::string reject_add_s8(const ops::NodeView& view);
void add_s8(KernelContext& context);

// quantisation
std::string reject_quantisation(const ops::NodeView& view);
KernelPointer make_quantisation(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_dynamic_quantisation(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
