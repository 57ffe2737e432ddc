// How the processor treats floating-point numbers, which each thread has for itself.
#pragma once

#include <cstdint>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace tessera::base {

// Rounding, flushing and traps of this thread, without the flags of what has happened. Always 0 where there is nothing
// to set.
inline std::uint32_t float_state() {
#ifdef __SSE__
  return _mm_getcsr() & ~std::uint32_t{_MM_EXCEPT_MASK};
#else
  return 0;
#endif
}

inline void set_float_state([[maybe_unused]] std::uint32_t state) {
#ifdef __SSE__
  _mm_setcsr(state);
#endif
}

// While it lives, results of this thread's arithmetic that would be denormal are zeros (FTZ).
class FlushedDenormals {
 public:
  explicit FlushedDenormals(bool flushes) : before_(float_state()) {
#ifdef __SSE__
    if (flushes) set_float_state(before_ | _MM_FLUSH_ZERO_ON);
#endif
  }
  ~FlushedDenormals() { set_float_state(before_); }
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  const std::uint32_t before_;
};

}  // namespace tessera::base
