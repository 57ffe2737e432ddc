// The names of CUresult, and descriptions in one line.
#pragma once

#include "backends/cuda/driver/driver_types.h"

namespace tessera::cuda::driver {

struct ErrorName {
  int result;
  const char* name;
  const char* text;
};

// Null for a number that is no CUresult.
const ErrorName* find_error_name(int result);

}  // namespace tessera::cuda::driver
