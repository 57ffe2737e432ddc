// The functions, factories and reject rules that trees/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// tree_ensemble
std::string reject_tree_ensemble(const ops::NodeView& view);
KernelPointer make_tree_ensemble(const ops::NodeView& view, WeightStore&);

}  // namespace tessera::backends::cpu
