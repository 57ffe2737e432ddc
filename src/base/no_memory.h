// What users meet when the system gives no more memory: an Error, as for every limit.
#pragma once

#include "base/error.h"

namespace tessera::base {

// For handlers of std::bad_alloc where the library is entered.
[[noreturn]] inline void fail_for_memory() {
  fail(ErrorKind::over_budget, "the system has no more memory");
}

}  // namespace tessera::base
