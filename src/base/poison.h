// Marks memory that must not be touched for now, so that the address sanitizer reports any access to it. Does nothing
// in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_ADDRESS_SANITIZER
#endif
#endif

#ifdef TESSERA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace tessera::base {

#ifdef TESSERA_ADDRESS_SANITIZER
inline constexpr bool kCanPoison = true;
inline void poison(const void* data, std::size_t bytes) {
  __asan_poison_memory_region(data, bytes);
}
inline void unpoison(const void* data, std::size_t bytes) {
  __asan_unpoison_memory_region(data, bytes);
}
#else
inline constexpr bool kCanPoison = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

}  // namespace tessera::base
