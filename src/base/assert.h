// Assertions for bugs of ours. A user's fault is never an assertion: it throws tessera::Error.
#pragma once

namespace tessera::base {

// Prints "internal error (a bug in Tessera) …" and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const char* note);

}  // namespace tessera::base

#define TESSERA_ASSERT(condition, note) \
  ((condition) ? (void)0 : ::tessera::base::assertion_failed(#condition, __FILE__, __LINE__, note))

// Too dear for release builds.
#ifdef TESSERA_DEBUG
#define TESSERA_DEBUG_ASSERT(condition, note) TESSERA_ASSERT(condition, note)
#else
#define TESSERA_DEBUG_ASSERT(condition, note) ((void)0)
#endif
