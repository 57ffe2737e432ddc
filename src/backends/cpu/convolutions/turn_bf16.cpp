#include "backends/cpu/convolutions/turn_bf16.h"

#include "backends/cpu/machine/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/turn_bf16.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Transposes 8 rows of 8 numbers, by interleaving numbers, pairs and fours of neighbouring rows.
HWY_INLINE void turn_block(const std::uint16_t* const* rows, std::int64_t c, std::uint16_t* to, std::int64_t stride) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::FixedTag<std::uint32_t, 4> d2;
  const hn::FixedTag<std::uint64_t, 2> d4;
  using V = hn::Vec<decltype(d)>;
  V row[8], once[8], twice[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) row[i] = hn::LoadU(d, rows[i] + c);
  // once[2 i], once[2 i + 1]: columns 0–3 and 4–7 of rows 2 i and 2 i + 1.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    once[2 * i] = hn::InterleaveLower(d, row[2 * i], row[2 * i + 1]);
    once[2 * i + 1] = hn::InterleaveUpper(d, row[2 * i], row[2 * i + 1]);
  }
  // twice[4 i + j]: columns 2 j and 2 j + 1 of rows 4 i to 4 i + 3.
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const auto a = hn::BitCast(d2, once[4 * i + j]), b = hn::BitCast(d2, once[4 * i + 2 + j]);
      twice[4 * i + 2 * j] = hn::BitCast(d, hn::InterleaveLower(d2, a, b));
      twice[4 * i + 2 * j + 1] = hn::BitCast(d, hn::InterleaveUpper(d2, a, b));
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const auto a = hn::BitCast(d4, twice[j]), b = hn::BitCast(d4, twice[4 + j]);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d4, a, b)), d, to + 2 * j * stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d4, a, b)), d, to + (2 * j + 1) * stride);
  }
}
#endif

}  // namespace

void turn_rows(const std::uint16_t* const* rows, std::int64_t count, std::uint16_t* to, std::int64_t stride) {
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; c + 8 <= count; c += 8) {
    for (std::int64_t i = 0; i < kRowsTurnedTogether; i += 8) turn_block(rows + i, c, to + c * stride + i, stride);
  }
#endif
  for (; c < count; ++c) {
    for (std::int64_t i = 0; i < kRowsTurnedTogether; ++i) to[c * stride + i] = rows[i][c];
  }
}

void pair_rows(const std::uint16_t* even, const std::uint16_t* odd, std::int64_t count, std::uint16_t* to) {
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint16_t, 8> d;
  for (; c + 8 <= count; c += 8) {
    const auto a = hn::LoadU(d, even + c), b = hn::LoadU(d, odd + c);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to + 2 * c);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + 2 * c + 8);
  }
#endif
  for (; c < count; ++c) {
    to[2 * c] = even[c];
    to[2 * c + 1] = odd[c];
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(turn_rows);
HWY_EXPORT(pair_rows);

void turn_rows_bf16(const std::uint16_t* const* rows, std::int64_t count, std::uint16_t* to, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(turn_rows)(rows, count, to, stride);
}

void pair_rows_bf16(const std::uint16_t* even, const std::uint16_t* odd, std::int64_t count, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(pair_rows)(even, odd, count, to);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
