// Loops over contiguous elements that the compiler vectorises for each instruction set.
#pragma once

#include <cstdint>

// Put before such a loop: tells the compiler that an output in the memory of an operand overlaps it only element by
// element.
#if defined(__clang__)
#define TESSERA_INDEPENDENT_ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TESSERA_INDEPENDENT_ELEMENTS _Pragma("GCC ivdep")
#endif

namespace tessera::backends::cpu {

// Elements at a time: at any level of optimisation, compilers vectorise a loop of constant length without a remainder.
inline constexpr std::int64_t kTogether = 64;

}  // namespace tessera::backends::cpu
