// The kernels of the CPU. Each folder here is a family of operators, and its kernel_table.cpp lists the entries that
// the device chooses from. CMakeLists.txt says which folders may include headers of which.
//
// A file is named <what>_<type>_<instruction set>. Example: the bfloat16 depthwise convolution, in
// convolutions/depthwise:
//   convolutions/kernel_table.cpp  the entry "cpu_bf16_depthwise", at its place in the order of preference
//   depthwise_bf16.cpp             the functions of the entry: its reject rule and factory; and depthwise_bf16(), which
//                                  chooses the loop of the instruction set
//   depthwise_bf16_avx512bf16.cpp  the loops: one for each instruction set, and one for machines that have none of them
//   depthwise_bf16_avx512.cpp
//   depthwise_bf16_portable.cpp
// A file without an instruction set in its name that includes hwy/foreach_target.h contains its own loops, compiled
// once for each set (machine/simd.h).
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

std::vector<std::span<const KernelEntry>> kernel_tables();

}  // namespace tessera::backends::cpu
