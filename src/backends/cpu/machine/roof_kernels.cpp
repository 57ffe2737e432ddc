#include "backends/cpu/machine/roof_kernels.h"

#include "backends/cpu/machine/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/machine/roof_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

double lanes() {
  return static_cast<double>(hn::Lanes(D()));
}

void multiply_add(std::int64_t steps) {
  const D d;
  // Volatile, so that compilers cannot compute the chains ahead; values stay near 1.
  static volatile float factor = 0.999f, term = 0.001f;
  const V a = hn::Set(d, factor), b = hn::Set(d, term);
  // Each chain starts with a different value: compilers would merge equal chains.
  const auto start = [&](float value) { return hn::Set(d, value); };
  V s0 = start(0), s1 = start(1), s2 = start(2), s3 = start(3), s4 = start(4), s5 = start(5), s6 = start(6),
    s7 = start(7), s8 = start(8), s9 = start(9), s10 = start(10), s11 = start(11);
  for (std::int64_t i = 0; i < steps; ++i) {
    s0 = hn::MulAdd(s0, a, b);
    s1 = hn::MulAdd(s1, a, b);
    s2 = hn::MulAdd(s2, a, b);
    s3 = hn::MulAdd(s3, a, b);
    s4 = hn::MulAdd(s4, a, b);
    s5 = hn::MulAdd(s5, a, b);
    s6 = hn::MulAdd(s6, a, b);
    s7 = hn::MulAdd(s7, a, b);
    s8 = hn::MulAdd(s8, a, b);
    s9 = hn::MulAdd(s9, a, b);
    s10 = hn::MulAdd(s10, a, b);
    s11 = hn::MulAdd(s11, a, b);
  }
  const V sum = hn::Add(hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7))),
                        hn::Add(hn::Add(s8, s9), hn::Add(s10, s11)));
  [[maybe_unused]] static volatile float sink;
  sink = hn::GetLane(hn::SumOfLanes(d, sum));
}

void copy(float* a, const float* b, const float*, std::int64_t count) {
  const D d;
  for (std::int64_t i = 0; i < count; i += 4 * kLanes) {
    const V v0 = hn::Load(d, b + i), v1 = hn::Load(d, b + i + kLanes), v2 = hn::Load(d, b + i + 2 * kLanes),
            v3 = hn::Load(d, b + i + 3 * kLanes);
    hn::Store(v0, d, a + i);
    hn::Store(v1, d, a + i + kLanes);
    hn::Store(v2, d, a + i + 2 * kLanes);
    hn::Store(v3, d, a + i + 3 * kLanes);
  }
}

void triad(float* a, const float* b, const float* c, std::int64_t count) {
  const D d;
  const V factor = hn::Set(d, 3.0f);
  for (std::int64_t i = 0; i < count; i += 2 * kLanes) {
    const V v0 = hn::MulAdd(hn::Load(d, c + i), factor, hn::Load(d, b + i));
    const V v1 = hn::MulAdd(hn::Load(d, c + i + kLanes), factor, hn::Load(d, b + i + kLanes));
    hn::Store(v0, d, a + i);
    hn::Store(v1, d, a + i + kLanes);
  }
}

void read(float* a, const float* b, const float*, std::int64_t count) {
  const D d;
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t i = 0; i < count; i += 8 * kLanes) {
    s0 = hn::Add(s0, hn::Load(d, b + i));
    s1 = hn::Add(s1, hn::Load(d, b + i + kLanes));
    s2 = hn::Add(s2, hn::Load(d, b + i + 2 * kLanes));
    s3 = hn::Add(s3, hn::Load(d, b + i + 3 * kLanes));
    s4 = hn::Add(s4, hn::Load(d, b + i + 4 * kLanes));
    s5 = hn::Add(s5, hn::Load(d, b + i + 5 * kLanes));
    s6 = hn::Add(s6, hn::Load(d, b + i + 6 * kLanes));
    s7 = hn::Add(s7, hn::Load(d, b + i + 7 * kLanes));
  }
  *a = hn::GetLane(
      hn::SumOfLanes(d, hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)))));
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::backends::cpu {
HWY_EXPORT(lanes);
HWY_EXPORT(multiply_add);
HWY_EXPORT(copy);
HWY_EXPORT(triad);
HWY_EXPORT(read);

namespace {

constexpr int kChains = 12;

#if defined(__x86_64__)
// Loops with instructions that Highway 1.0 lacks. Each keeps its chains, which start with different values, in
// registers.
[[gnu::target("avx512f,avx512bf16,avx512vl,avx512bw")]] void dot_bf16(std::int64_t steps) {
  static volatile short bits = 0x3f7f;  // a little less than 1
  const __m512i same = _mm512_set1_epi16(bits);
  const __m512bh a = reinterpret_cast<__m512bh>(same);
  __m512 sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], a, a);
  }
  [[maybe_unused]] static volatile float sink;
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sink = _mm512_reduce_add_ps(sum[i]);
}

[[gnu::target("avx512f,avx512vnni")]] void dot_int8_vnni(std::int64_t steps) {
  static volatile int bits = 0x01020301;
  const __m512i a = _mm512_set1_epi32(bits);
  __m512i sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, a);
  }
  [[maybe_unused]] static volatile int sink;
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sink = _mm512_reduce_add_epi32(sum[i]);
}

// Configures tile registers of 16 rows of 64 bytes: four tiles of sums, two tiles each of the left and right operand.
void configure_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}

void dot_bf16_tiles(std::int64_t steps) {
  configure_tiles();
  for (std::int64_t step = 0; step < steps; ++step) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\ttdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps "
        "%tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
}

void dot_int8_tiles(std::int64_t steps) {
  configure_tiles();
  for (std::int64_t step = 0; step < steps; ++step) {
    asm volatile(
        "tdpbusd %tmm6, %tmm4, %tmm0\n\ttdpbusd %tmm7, %tmm4, %tmm1\n\ttdpbusd %tmm6, %tmm5, %tmm2\n\ttdpbusd %tmm7, "
        "%tmm5, %tmm3");
  }
  asm volatile("tilerelease");
}

// An int8 dot product as without VNNI: multiply into int16 pairs, widen to int32, add.
[[gnu::target("avx2")]] void dot_int8_avx2(std::int64_t steps) {
  static volatile int bits = 0x01020301;
  const __m256i a = _mm256_set1_epi32(bits), ones = _mm256_set1_epi16(1);
  __m256i sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i)
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(sum[i], a), ones));
  }
  [[maybe_unused]] static volatile int sink;
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sink = _mm256_extract_epi32(sum[i], 0);
}
#endif

const char* name_of(base::Isa isa) {
  return isa == base::Isa::avx512 ? "avx512" : isa == base::Isa::avx2 ? "avx2" : "scalar";
}

}  // namespace

std::vector<ComputeLoop> compute_loops() {
  using base::Isa;
  const Isa best = active_isa();
  std::vector<ComputeLoop> loops;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa > best) break;
    const ScopedIsa with(isa);
    const double lanes = HWY_DYNAMIC_DISPATCH(lanes)();
    loops.push_back({"float32 multiply-add", name_of(isa), isa,
                     [](std::int64_t steps) { HWY_DYNAMIC_DISPATCH(multiply_add)(steps); }, 2 * kChains * lanes});
  }
#if defined(__x86_64__)
  if (best == Isa::avx512 && base::cpu_info().avx512_bf16)
    loops.push_back({"bf16 dot", "AVX512_BF16", best, dot_bf16, 2 * kChains * 32});
  if (best >= Isa::avx2) loops.push_back({"int8 dot", "avx2", best, dot_int8_avx2, 2 * kChains * 32});
  if (active_vnni()) loops.push_back({"int8 dot", "AVX512_VNNI", best, dot_int8_vnni, 2 * kChains * 64});
  if (active_tiles()) {
    constexpr double kTileSums = 4 * 16 * 16;
    loops.push_back({"bf16 dot", "AMX_BF16", best, dot_bf16_tiles, 2 * kTileSums * 32});
    loops.push_back({"int8 dot", "AMX_INT8", best, dot_int8_tiles, 2 * kTileSums * 64});
  }
#endif
  return loops;
}

std::vector<StreamLoop> stream_loops() {
  return {
      {"read",
       [](float* a, const float* b, const float* c, std::int64_t count) { HWY_DYNAMIC_DISPATCH(read)(a, b, c, count); },
       1},
      {"copy",
       [](float* a, const float* b, const float* c, std::int64_t count) { HWY_DYNAMIC_DISPATCH(copy)(a, b, c, count); },
       2},
      {"triad",
       [](float* a, const float* b, const float* c, std::int64_t count) {
         HWY_DYNAMIC_DISPATCH(triad)(a, b, c, count);
       },
       3}};
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
