// Each panel is summed in registers, in an order that depends only on the weights and the instruction set.
#include "backends/cpu/products/sparse/sparse_panels.h"

#include "backends/cpu/products/sparse/sparse_weights.h"
#include "base/numbers/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/sparse/sparse_panels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kMostSparseLanes>;
using U = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;

HWY_INLINE std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(D()));
}

HWY_INLINE V load(const float* from) {
  return hn::LoadU(D(), from);
}
// bfloat16 numbers are the upper halves of floats.
HWY_INLINE V load(const std::uint16_t* from) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D(), base::to_float(bf16_t{*from}));
#else
  const U u;
  const hn::Rebind<std::uint16_t, U> bits;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(u, hn::LoadU(bits, from))));
#endif
}

// Sums of several rows, each in `chains` independent accumulators.
template <int rows, int chains>
struct Sums {
  V sum[rows][chains];

  HWY_INLINE Sums() {
#pragma GCC unroll 4
    for (auto& row : sum) {
#pragma GCC unroll 4
      for (V& each : row) each = hn::Zero(D());
    }
  }
  HWY_INLINE void store(float* to) const {
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      V all = sum[i][0];
#pragma GCC unroll 4
      for (int c = 1; c < chains; ++c) all = hn::Add(all, sum[i][c]);
      hn::StoreU(all, D(), to + i * kMostSparseLanes);
    }
  }
};
template <int rows>
constexpr int kChains = rows == 1 ? 4 : 2;

template <int rows, typename Value>
void blocks(const SparsePanel& panel) {
  constexpr int chains = kChains<rows>;
  const D d;
  const std::int64_t width = lanes();
  Sums<rows, chains> sums;
  const auto* values = static_cast<const Value*>(panel.values);
  const auto add = [&](std::int64_t entry, int chain) HWY_ATTR {
    const V weights = load(values);
    values += width;
    const float* x = panel.x + panel.places[entry];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
      sums.sum[i][chain] = hn::MulAdd(hn::Set(d, x[i * panel.row_stride]), weights, sums.sum[i][chain]);
  };
  std::int64_t entry = 0;
  for (; entry + chains <= panel.count; entry += chains) {
#pragma GCC unroll 4
    for (int c = 0; c < chains; ++c) add(entry + c, c);
  }
  for (; entry < panel.count; ++entry) add(entry, 0);
  sums.store(panel.sums);
}

#define TESSERA_SPARSE_IS_AVX512 (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR)

// Element i of the result is group[places[i] & 3].
HWY_INLINE V select(const float* group, hn::Vec<U> places) {
#if HWY_TARGET == HWY_AVX2
  return V{_mm256_permutevar_ps(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(group)), places.raw)};
#elif TESSERA_SPARSE_IS_AVX512
  return V{_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(group)), places.raw)};
#else
  std::uint32_t at[kMostSparseLanes];
  float selected[kMostSparseLanes];
  hn::StoreU(places, U(), at);
  for (std::int64_t i = 0; i < lanes(); ++i) selected[i] = group[at[i] & 3];
  return hn::LoadU(D(), selected);
#endif
}

// A segment of 32 floats, held for look-ups.
struct Segment {
#if HWY_TARGET == HWY_AVX2
  __m256 x[4];
  HWY_INLINE explicit Segment(const float* from)
      : x{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8), _mm256_loadu_ps(from + 16), _mm256_loadu_ps(from + 24)} {}
  // Element i of the result is element bytes[i] of the segment.
  HWY_INLINE V at(const std::uint8_t* bytes) const {
    const __m256i places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
    const __m256 odd = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28)),
                 high = _mm256_castsi256_ps(_mm256_slli_epi32(places, 27));
    const auto from = [&](int i) HWY_ATTR { return _mm256_permutevar8x32_ps(x[i], places); };
    return V{_mm256_blendv_ps(_mm256_blendv_ps(from(0), from(1), odd), _mm256_blendv_ps(from(2), from(3), odd), high)};
  }
#elif TESSERA_SPARSE_IS_AVX512
  __m512 low, high;
  HWY_INLINE explicit Segment(const float* from) : low(_mm512_loadu_ps(from)), high(_mm512_loadu_ps(from + 16)) {}
  HWY_INLINE V at(const std::uint8_t* bytes) const {
    const __m512i places = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    return V{_mm512_permutex2var_ps(low, places, high)};
  }
#else
  const float* x;
  HWY_INLINE explicit Segment(const float* from) : x(from) {}
  HWY_INLINE V at(const std::uint8_t* bytes) const {
    float selected[kMostSparseLanes];
    for (std::int64_t i = 0; i < lanes(); ++i) selected[i] = x[bytes[i]];
    return hn::LoadU(D(), selected);
  }
#endif
};

template <int rows, typename Value>
void segments(const SparsePanel& panel) {
  const std::int64_t width = lanes();
  Sums<rows, 2> sums;
  const auto* values = static_cast<const Value*>(panel.values);
  const std::uint8_t* bytes = panel.bytes;
  const auto add = [&](const Segment* x, int chain) HWY_ATTR {
    const V weights = load(values);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) sums.sum[i][chain] = hn::MulAdd(x[i].at(bytes), weights, sums.sum[i][chain]);
    values += width;
    bytes += width;
  };
  for (std::int64_t segment = 0; segment < panel.count; ++segment) {
    int slots = panel.slots[segment];
    if (slots == 0) continue;
    const float* from = panel.x + segment * kSegment;
    if constexpr (rows == 1) {
      const Segment x[1] = {Segment(from)};
      for (; slots >= 2; slots -= 2) add(x, 0), add(x, 1);
      if (slots > 0) add(x, 0);
    } else if constexpr (rows == 2) {
      const Segment x[2] = {Segment(from), Segment(from + panel.row_stride)};
      for (; slots >= 2; slots -= 2) add(x, 0), add(x, 1);
      if (slots > 0) add(x, 0);
    } else if constexpr (rows == 3) {
      const Segment x[3] = {Segment(from), Segment(from + panel.row_stride), Segment(from + 2 * panel.row_stride)};
      for (; slots > 0; --slots) add(x, 0);
    } else {
      const Segment x[4] = {Segment(from), Segment(from + panel.row_stride), Segment(from + 2 * panel.row_stride),
                            Segment(from + 3 * panel.row_stride)};
      for (; slots > 0; --slots) add(x, 0);
    }
  }
  sums.store(panel.sums);
}

template <int rows, typename Value>
void two_of_four(const SparsePanel& panel) {
  const U u;
  const std::int64_t width = lanes();
  Sums<rows, 4> sums;
  const auto* values = static_cast<const Value*>(panel.values);
  for (std::int64_t word = 0; word < panel.count; ++word) {
    hn::Vec<U> places = hn::LoadU(u, panel.places + word * width);
#pragma GCC unroll 8
    for (int group = 0; group < 8; ++group) {
      const float* x = panel.x + word * kSegment + 4 * group;
#pragma GCC unroll 2
      for (int of = 0; of < 2; ++of) {
        const V weights = load(values);
        values += width;
        const int chain = (2 * group + of) % 4;
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i)
          sums.sum[i][chain] = hn::MulAdd(select(x + i * panel.row_stride, places), weights, sums.sum[i][chain]);
        places = hn::ShiftRight<2>(places);
      }
    }
  }
  sums.store(panel.sums);
}

template <typename Value>
SparseFunctions functions_of() {
  return {static_cast<int>(lanes()),
          {blocks<1, Value>, blocks<2, Value>, blocks<3, Value>, blocks<4, Value>},
          {two_of_four<1, Value>, two_of_four<2, Value>, two_of_four<3, Value>, two_of_four<4, Value>},
          {segments<1, Value>, segments<2, Value>, segments<3, Value>, segments<4, Value>}};
}

}  // namespace

SparseFunctions panel_functions(bool bf16) {
  return bf16 ? functions_of<std::uint16_t>() : functions_of<float>();
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(panel_functions);

SparseFunctions sparse_functions(bool bf16) {
  return HWY_DYNAMIC_DISPATCH(panel_functions)(bf16);
}

}  // namespace tessera::backends::cpu
#endif
