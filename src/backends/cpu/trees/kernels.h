// What trees/kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the file's
// stem.
#pragma once

#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// tree_ensemble
std::string reject_tree_ensemble(const ops::NodeView& view);
KernelPointer make_tree_ensemble(const ops::NodeView& view, WeightStore&);

}  // namespace tessera::backends::cpu
