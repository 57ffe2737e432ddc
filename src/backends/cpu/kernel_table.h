// The kernels of the CPU, room by room: each folder here is a family of operators, and its kernel_table.cpp lists the
// entries that the device chooses from. Which rooms a room uses stands in CMakeLists.txt.
//
// A file is named <what>_<type>_<instruction set>. Take the depthwise convolution of bfloat16, in convolutions/:
//   kernel_table.cpp               its entry, "cpu_bf16_depthwise", at its place in the order of preference
//   depthwise_bf16.cpp             what the entry names: which nodes it rejects and the kernel that is made of one; and
//                                  depthwise_bf16(), which chooses the instruction set's loop
//   depthwise_bf16_avx512bf16.cpp  the loops: one for each instruction set, one for machines that have none of them
//   depthwise_bf16_avx512.cpp
//   depthwise_bf16_portable.cpp
// A file without an instruction set in its name that includes hwy/foreach_target.h has its loops in itself, compiled
// once for each set (machine/simd.h).
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

std::vector<std::span<const KernelEntry>> kernel_tables();

}  // namespace tessera::backends::cpu
