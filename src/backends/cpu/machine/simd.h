// Which instruction set the CPU kernels run with, and how a kernel file is written for all of them.
//
// Portable kernels are Highway code, compiled three times from one file (scalar, AVX2, AVX-512):
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "backends/cpu/element_wise/cast.cpp"
//   #include <hwy/foreach_target.h>  // must come before highway.h
//   #include <hwy/highway.h>
//
//   HWY_BEFORE_NAMESPACE();
//   namespace tessera::backends::cpu::HWY_NAMESPACE {
//   namespace hn = hwy::HWY_NAMESPACE;
//   void scale_line(const float* x, float* y, std::int64_t count, float factor) { … hn::ScalableTag<float> … }
//   }
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace tessera::backends::cpu {
//   HWY_EXPORT(scale_line);
//   void scale(KernelContext& context) { … HWY_DYNAMIC_DISPATCH(scale_line)(…) … }
//   }
//   #endif
//
// The scalar set has one lane: guard code that shuffles lanes by `#if HWY_TARGET != HWY_SCALAR`. The build sets
// -ffp-contract=off, so a fused multiply-add is written out as hn::MulAdd (the scalar set rounds its product).
// Results may differ between sets, never between thread counts.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"

namespace tessera::backends::cpu {

// The instruction set in use: the best that both base::cpu_info() (with TESSERA_ISA) and Highway find on this machine.
base::Isa active_isa();
// Whether int8 dot products (AVX-512 VNNI) may be used.
bool active_vnni();
// Whether bfloat16 dot products (AVX-512 BF16) may be used.
bool active_bf16();
// Whether byte permutations (AVX-512 VBMI) may be used.
bool active_vbmi();
// Whether tile registers (AMX) may be used, and whether products emulate them.
bool active_tiles();
bool emulates_tiles();

// Products with fewer rows use vectors instead of tiles: an incomplete tile takes as long as a whole one.
inline constexpr std::int64_t kFewestTileRows = 8;

// Releases the tile registers that products used, at the end of its lifetime, so that the system need not save them
// when it interrupts this thread. To be created around products by tiles, in the thread that multiplies.
class TileScope {
 public:
  TileScope() = default;
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};
void release_amx();  // tile_product_amx.cpp

// Instructions beyond a set: int8 and bfloat16 dot products and byte permutations (`vectors`); tile registers too
// (`tiles`), or emulated ones (`emulated_tiles`).
enum class Extensions { none, vectors, tiles, emulated_tiles };
inline constexpr Extensions kAllExtensions[] = {Extensions::none, Extensions::vectors, Extensions::tiles,
                                                Extensions::emulated_tiles};

// Makes Highway's run-time dispatch follow active_isa(). Called once before the first kernel runs; thread-safe.
void initialise_simd();

// For tests only: runs kernels with a lower set for its lifetime. Not while other threads create or run kernels.
class ScopedIsa {
 public:
  // Sets and extensions above the machine's are lowered to it; see active_isa(). Emulated tile registers are available
  // on every machine.
  explicit ScopedIsa(base::Isa isa, Extensions extensions = Extensions::tiles);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;
};

}  // namespace tessera::backends::cpu
