// Tessera's environment variables.
#pragma once

#include <string_view>

namespace tessera::base {

// Threads beyond this are a mistake, not a machine.
inline constexpr int kMostThreads = 1024;

// TESSERA_NUM_THREADS, or 0 when it is not set or empty. Throws Error(invalid_argument) for anything but a whole number
// from 0 to kMostThreads.
int threads_by_environment();

// TESSERA_ISA, or nothing when it is not set. Throws Error(invalid_argument) unless it is scalar, avx2, avx512 or amx.
std::string_view isa_by_environment();

}  // namespace tessera::base
