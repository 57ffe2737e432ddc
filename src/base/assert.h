// Assertions against bugs in Tessera itself. A mistake of the user is never an assertion: it throws tessera::Error.
#pragma once

namespace tessera::base {

// Prints "internal error (a bug in Tessera) …" and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const char* note);

}  // namespace tessera::base

#define TESSERA_ASSERT(condition, note) \
  ((condition) ? (void)0 : ::tessera::base::assertion_failed(#condition, __FILE__, __LINE__, note))

// Too expensive for release builds.
#ifdef TESSERA_DEBUG
#define TESSERA_DEBUG_ASSERT(condition, note) TESSERA_ASSERT(condition, note)
#else
#define TESSERA_DEBUG_ASSERT(condition, note) ((void)0)
#endif
