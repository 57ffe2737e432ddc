// Reports failed allocations as an Error, like every other limit.
#pragma once

#include <new>
#include <stdexcept>

#include "base/error.h"

namespace tessera::base {

// Calls the body and returns its result. Turns std::bad_alloc, and the std::length_error of a container that cannot be
// so large, into Error(over_budget).
template <typename Body>
decltype(auto) with_memory_errors(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::over_budget, "the system has no more memory");
  } catch (const std::length_error&) {
    fail(ErrorKind::over_budget, "this takes more memory than there can be");
  }
}

}  // namespace tessera::base
