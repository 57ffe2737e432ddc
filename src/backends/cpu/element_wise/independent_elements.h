// Loops over contiguous elements that the compiler writes with vectors of each instruction set.
#pragma once

#include <cstdint>

// Before such a loop: an output that is the memory of an operand meets it at the same element only.
#if defined(__clang__)
#define TESSERA_INDEPENDENT_ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TESSERA_INDEPENDENT_ELEMENTS _Pragma("GCC ivdep")
#endif

namespace tessera::backends::cpu {

// Compilers write a loop whose length they know with vectors only, at any level of optimisation: elements at a time.
inline constexpr std::int64_t kTogether = 64;

}  // namespace tessera::backends::cpu
