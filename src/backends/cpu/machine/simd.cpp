#include "backends/cpu/machine/simd.h"

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>

namespace tessera::backends::cpu {
namespace {

using base::Isa;

constexpr std::int64_t targets_of(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return HWY_AVX3;
    case Isa::avx2:
      return HWY_AVX2;
    case Isa::scalar:
      break;
  }
  return 0;  // Highway adds its baseline, the lowest set that the compiler may assume
}

// The best instruction set that both Highway and base find: for AVX2, Highway also requires BMI2 and F16C.
Isa machine_isa() {
  static const Isa isa = [] {
    Isa best = base::cpu_info().isa;
    while (best != Isa::scalar && (hwy::SupportedTargets() & targets_of(best)) == 0) {
      best = static_cast<Isa>(static_cast<int>(best) - 1);
    }
    return best;
  }();
  return isa;
}

struct Choice {
  std::atomic<Isa> isa{machine_isa()};
  std::atomic<Extensions> extensions{Extensions::tiles};
};

void dispatch_to(Isa isa) {
#if HWY_ARCH_X86
  hwy::GetChosenTarget().Update(targets_of(isa));
#else
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#endif
}

Choice& choice() {
  static Choice value;
  static const bool dispatched = (dispatch_to(value.isa), true);
  static_cast<void>(dispatched);
  return value;
}

bool extends() {
  return choice().extensions != Extensions::none && choice().isa == Isa::avx512;
}

}  // namespace

Isa active_isa() {
  return choice().isa;
}

bool active_vnni() {
  return base::cpu_info().avx512_vnni && extends();
}

bool active_bf16() {
  return base::cpu_info().avx512_bf16 && extends();
}

bool active_vbmi() {
  return base::cpu_info().avx512_vbmi && extends();
}

bool active_tiles() {
  return base::cpu_info().amx && choice().extensions == Extensions::tiles && choice().isa == Isa::avx512;
}

bool emulates_tiles() {
  return choice().extensions == Extensions::emulated_tiles;
}

TileScope::~TileScope() {
#if defined(__x86_64__)
  if (base::cpu_info().amx) release_amx();
#endif
}

void initialise_simd() {
  choice();
}

ScopedIsa::ScopedIsa(Isa isa, Extensions extensions) {
  choice().isa = std::min(isa, machine_isa());
  choice().extensions = extensions;
  dispatch_to(choice().isa);
}

ScopedIsa::~ScopedIsa() {
  choice().isa = machine_isa();
  choice().extensions = Extensions::tiles;
  dispatch_to(choice().isa);
}

}  // namespace tessera::backends::cpu
