// The part of CUDA C++ that kernels use, for g++: qualifiers, the place of a thread, warp functions, atomics,
// arithmetic. backends/cuda/kernels/device_code.h includes it where nvcc does not compile. Names are CUDA's.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulation/block.h"
#include "emulation/sanitizers.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define threadIdx ::tessera::emulation::thread_index
#define blockIdx ::tessera::emulation::block_index
#define blockDim ::tessera::emulation::block_size
#define gridDim ::tessera::emulation::grid_size

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

using std::max;
using std::min;

namespace tessera::emulation {

inline Group warp_of(const Thread& thread) {
  return {thread.number / 32 * 32, 32};
}
inline Group warpgroup_of(const Thread& thread) {
  return {thread.number / 128 * 128, 128};
}

// A warp-wide operation: `execute` gets the arguments of the 32 lanes, null for those that do not take part.
template <class Call, class Execute>
void warp_wide(const char* name, unsigned mask, Call& call, const Execute& execute, bool aligned, Site site) {
  Block& block = Block::current();
  block.gather(
      warp_of(Block::thread()), mask, name, &call,
      [&execute](void* const* lanes) { execute(reinterpret_cast<Call* const*>(lanes)); }, aligned, site);
}

// Exchanges values within segments of `width` lanes. `source` gives the lane in the segment to read, or -1 for one's
// own.
template <class T, class Source>
T shuffle(const char* name, unsigned mask, T value, int width, const Source& source, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 4 or 8 bytes");
  if (width < 1 || width > 32 || (width & (width - 1)) != 0)
    Block::current().fault(std::string(name) + " of a width that is no power of two", site);
  const int lane = static_cast<int>(Block::thread().lane());
  const int from = source(lane % width, width);
  struct Values {
    T value;
    int from;
    T result;
  } call{value, from < 0 ? lane : lane / width * width + from, value};
  warp_wide(
      name, mask, call,
      [](Values* const* lanes) {
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          const Values* other = lanes[lanes[i]->from];
          // The value of a lane that takes no part is undefined.
          if (other == nullptr) {
            std::memset(&lanes[i]->result, static_cast<int>(kPoison), sizeof(T));
          } else {
            lanes[i]->result = other->value;
          }
        }
      },
      false, site);
  return call.result;
}

// Lanes that take part and whose predicate is true, as bits; `all` gets those that take part.
inline unsigned vote(const char* name, unsigned mask, bool predicate, unsigned& all, Site site) {
  struct Call {
    bool predicate;
    unsigned result, all;
  } call{predicate, 0, 0};
  warp_wide(
      name, mask, call,
      [](Call* const* lanes) {
        unsigned result = 0, taking_part = 0;
        for (unsigned i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          taking_part |= 1u << i;
          if (lanes[i]->predicate) result |= 1u << i;
        }
        for (unsigned i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          lanes[i]->result = result;
          lanes[i]->all = taking_part;
        }
      },
      false, site);
  all = call.all;
  return call.result;
}

// Shuffled schedules let other threads run before an atomic operation.
inline void interleave() {
  Block& block = Block::current();
  bool yields = false;
  {
    const sanitizers::Unwatched unwatched;
    yields = block.options().seed != 0 && block.random()() % 8 == 0;
  }
  if (yields) block.yield();
}

template <class T>
T& static_shared(const void* key, Site site) {
  Block& block = Block::current();
  const sanitizers::Unwatched unwatched;
  auto* object = block.shared().object(key, sizeof(T), std::max<std::size_t>(alignof(T), 16));
  if (object == nullptr)
    block.fault("shared memory is exhausted by an object of " + std::to_string(sizeof(T)) + " bytes", site);
  block.declare_shared(sizeof(T), site);
  return *reinterpret_cast<T*>(object);
}

}  // namespace tessera::emulation

using tessera::emulation::Site;

inline void __syncthreads(Site site = Site::current()) {
  tessera::emulation::Block::current().arrive(0, 0, true, false, "__syncthreads", site);
}
inline int __syncthreads_count(int predicate, Site site = Site::current()) {
  return static_cast<int>(
      tessera::emulation::Block::current().arrive(0, 0, true, predicate != 0, "__syncthreads_count", site));
}
inline int __syncthreads_or(int predicate, Site site = Site::current()) {
  return tessera::emulation::Block::current().arrive(0, 0, true, predicate != 0, "__syncthreads_or", site) != 0;
}
inline int __syncthreads_and(int predicate, Site site = Site::current()) {
  return tessera::emulation::Block::current().arrive(0, 0, true, predicate == 0, "__syncthreads_and", site) == 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, Site site = Site::current()) {
  unsigned all = 0;
  tessera::emulation::vote("__syncwarp", mask, false, all, site);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, Site site = Site::current()) {
  return tessera::emulation::shuffle(
      "__shfl_sync", mask, value, width, [=](int, int size) { return lane & (size - 1); }, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, Site site = Site::current()) {
  return tessera::emulation::shuffle(
      "__shfl_xor_sync", mask, value, width, [=](int own, int size) { return (own ^ bits) < size ? own ^ bits : -1; },
      site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, int width = 32, Site site = Site::current()) {
  return tessera::emulation::shuffle(
      "__shfl_down_sync", mask, value, width,
      [=](int own, int size) { return own + static_cast<int>(step) < size ? own + static_cast<int>(step) : -1; }, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, int width = 32, Site site = Site::current()) {
  return tessera::emulation::shuffle(
      "__shfl_up_sync", mask, value, width,
      [=](int own, int) { return own >= static_cast<int>(step) ? own - static_cast<int>(step) : -1; }, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, Site site = Site::current()) {
  unsigned all = 0;
  return tessera::emulation::vote("__ballot_sync", mask, predicate != 0, all, site);
}
inline int __any_sync(unsigned mask, int predicate, Site site = Site::current()) {
  unsigned all = 0;
  return tessera::emulation::vote("__any_sync", mask, predicate != 0, all, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, Site site = Site::current()) {
  unsigned all = 0;
  const unsigned result = tessera::emulation::vote("__all_sync", mask, predicate != 0, all, site);
  return result == all;
}

// Atomics return the value that was there before.
template <class T, class Update>
T tessera_emulated_atomic(T* address, const Update& update) {
  tessera::emulation::interleave();
  T before;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  for (;;) {
    T after = update(before);
    if (__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return before;
  }
}
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return tessera_emulated_atomic(address, [=](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return tessera_emulated_atomic(address, [=](T old) { return old > value ? old : value; });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return tessera_emulated_atomic(address, [=](T old) { return old < value ? old : value; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return tessera_emulated_atomic(address, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return tessera_emulated_atomic(address, [=](T old) { return old == expected ? value : old; });
}
inline void __threadfence() {}
inline void __threadfence_block() {}

inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(std::clamp(x, -2147483648.0f, 2147483520.0f)));
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
