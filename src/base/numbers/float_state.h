// The processor's settings for floating-point arithmetic, which each thread has for itself.
#pragma once

#include <cstdint>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace tessera::base {

// The rounding mode, flushing and traps of this thread, without the flags of past exceptions. Always 0 on processors
// without such settings.
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

// Makes results of this thread's arithmetic that would be denormal zero (FTZ), for the object's lifetime.
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
