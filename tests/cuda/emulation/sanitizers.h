// Tells the address and thread sanitizers of fibers and guarded memory; does nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace tessera::emulation::sanitizers {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddresses = true;
inline void poison(void* begin, std::size_t bytes) {
  __asan_poison_memory_region(begin, bytes);
}
inline void unpoison(void* begin, std::size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
inline void start_switch(void** saved, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(saved, bottom, bytes);
}
inline void finish_switch(void* saved, const void** bottom, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
}
#else
inline constexpr bool kAddresses = false;
inline void poison(void*, std::size_t) {}
inline void unpoison(void*, std::size_t) {}
inline void start_switch(void**, const void*, std::size_t) {}
inline void finish_switch(void*, const void**, std::size_t*) {}
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRaces = true;
inline void* this_race_fiber() {
  return __tsan_get_current_fiber();
}
inline void* new_race_fiber() {
  return __tsan_create_fiber(0);
}
inline void delete_race_fiber(void* fiber) {
  __tsan_destroy_fiber(fiber);
}
// Flag 1: the switch orders nothing, so that accesses of two fibers race unless a barrier lies between them.
inline void switch_race_fiber(void* fiber) {
  __tsan_switch_to_fiber(fiber, 1);
}
// Orders the work of a fiber before release(place) before the work of another after acquire(place).
inline void release(void* place) {
  __tsan_release(place);
}
inline void acquire(void* place) {
  __tsan_acquire(place);
}
// How often the running fiber is unwatched. A fiber must not end so: the sanitizer would end the process.
inline thread_local int scheduler_depth = 0;
inline thread_local int* fiber_depth = nullptr;  // null: the scheduler runs
// These belong to the emulation, which one thread runs: the sanitizer is not to see that fibers share them.
#define TESSERA_UNWATCHED __attribute__((no_sanitize("thread")))
TESSERA_UNWATCHED inline int& depth() {
  return fiber_depth != nullptr ? *fiber_depth : scheduler_depth;
}
TESSERA_UNWATCHED inline void run_with(int* of_fiber) {
  fiber_depth = of_fiber;
}
TESSERA_UNWATCHED inline void watch(bool on) {
  depth() += on ? -1 : 1;
  if (on) {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  } else {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
}
TESSERA_UNWATCHED inline void watch_again() {
  while (depth() > 0) watch(true);
}
#else
#define TESSERA_UNWATCHED
inline void watch(bool) {}
inline void watch_again() {}
inline void run_with(int*) {}
inline constexpr bool kRaces = false;
inline void* this_race_fiber() {
  return nullptr;
}
inline void* new_race_fiber() {
  return nullptr;
}
inline void delete_race_fiber(void*) {}
inline void switch_race_fiber(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
#endif

// While one lives, the thread sanitizer overlooks the accesses of the fiber: those of the emulation itself, which one
// thread makes for all fibers.
struct Unwatched {
  Unwatched() { watch(false); }
  ~Unwatched() { watch(true); }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};
// Within an Unwatched: the accesses of the kernel.
struct Watched {
  Watched() { watch(true); }
  ~Watched() { watch(false); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

}  // namespace tessera::emulation::sanitizers
