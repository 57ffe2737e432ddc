// Whether a sanitizer slows this build down and takes memory of its own.
#pragma once

namespace tessera::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// How many times as long as in other builds a test may wait for something.
inline constexpr int kPatience = kSanitized ? 10 : 1;

}  // namespace tessera::test
