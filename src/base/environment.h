// Tessera's environment variables.
#pragma once

#include <string_view>

namespace tessera::base {

// A larger number of threads is a mistake in the configuration, not a larger machine.
inline constexpr int kMostThreads = 1024;

// The value of TESSERA_NUM_THREADS, or 0 if it is not set or empty. Throws Error(invalid_argument) for anything but a
// whole number from 0 to kMostThreads.
int threads_by_environment();

// The value of TESSERA_ISA, or "" if it is not set. Throws Error(invalid_argument) unless it is scalar, avx2, avx512 or
// amx.
std::string_view isa_by_environment();

}  // namespace tessera::base
