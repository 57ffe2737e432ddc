#include "backends/cpu/attention/cache_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/cache_blocks.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kBlockAlignment>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = hn::MaxLanes(D());
// A tile of queries times vectors, whose sums fill the registers.
constexpr int kQueries = 6, kVectors = kLanes >= 16 ? 4 : kLanes >= 4 ? 2 : 1;
static_assert(kKeyBlock % (kLanes * kVectors) == 0 && kBlockAlignment % kLanes == 0);

#if HWY_MAX_BYTES >= 32

// The transpose of eight rows of eight numbers.
HWY_INLINE void transpose_eight(const float* from, std::int64_t stride, float* to) {
  const hn::CappedTag<float, 8> d;
  const hn::Repartition<double, decltype(d)> pairs;
  using E = hn::Vec<decltype(d)>;
  E row[8];
  for (int i = 0; i < 8; ++i) row[i] = hn::LoadU(d, from + i * stride);
  // Each quarter: the columns i of a half of the vectors, of four rows.
  E quarter[2][4];
  for (int half = 0; half < 2; ++half) {
    const E* r = row + half * 4;
    const auto low0 = hn::BitCast(pairs, hn::InterleaveLower(d, r[0], r[1])),
               low1 = hn::BitCast(pairs, hn::InterleaveLower(d, r[2], r[3])),
               high0 = hn::BitCast(pairs, hn::InterleaveUpper(d, r[0], r[1])),
               high1 = hn::BitCast(pairs, hn::InterleaveUpper(d, r[2], r[3]));
    quarter[half][0] = hn::BitCast(d, hn::InterleaveLower(pairs, low0, low1));
    quarter[half][1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low0, low1));
    quarter[half][2] = hn::BitCast(d, hn::InterleaveLower(pairs, high0, high1));
    quarter[half][3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high0, high1));
  }
  for (int i = 0; i < 4; ++i) {
    hn::StoreU(hn::ConcatLowerLower(d, quarter[1][i], quarter[0][i]), d, to + i * kKeyBlock);
    hn::StoreU(hn::ConcatUpperUpper(d, quarter[1][i], quarter[0][i]), d, to + (i + 4) * kKeyBlock);
  }
}

void transpose(const float* from, std::int64_t stride, float* to) {
  for (std::int64_t i = 0; i < stride; i += 8) {
    for (std::int64_t key = 0; key < kKeyBlock; key += 8)
      transpose_eight(from + key * stride + i, stride, to + i * kKeyBlock + key);
  }
}

#else

void transpose(const float* from, std::int64_t stride, float* to) {
  for (std::int64_t i = 0; i < stride; ++i) {
    for (std::int64_t key = 0; key < kKeyBlock; ++key) to[i * kKeyBlock + key] = from[key * stride + i];
  }
}

#endif

template <int queries>
void some_scores(const float* query, std::int64_t stride, const float* keys, std::int64_t size, float* scores) {
  const D d;
  for (std::int64_t key = 0; key < kKeyBlock; key += kVectors * kLanes) {
    V sum[queries][kVectors];
#pragma GCC unroll 6
    for (int q = 0; q < queries; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[q][j] = hn::Zero(d);
    const float* at = keys + key;
    for (std::int64_t i = 0; i < size; ++i, at += kKeyBlock) {
      V column[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) column[j] = hn::LoadU(d, at + j * kLanes);
#pragma GCC unroll 6
      for (int q = 0; q < queries; ++q) {
        const V number = hn::Set(d, query[q * stride + i]);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[q][j] = hn::MulAdd(number, column[j], sum[q][j]);
      }
    }
#pragma GCC unroll 6
    for (int q = 0; q < queries; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[q][j], d, scores + q * kKeyBlock + key + j * kLanes);
  }
}

template <int queries, int vectors>
void add_columns(const float* weights, const float* values, std::int64_t width, std::int64_t begin, std::int64_t end,
                 float* y) {
  const D d;
  V sum[queries][vectors];
#pragma GCC unroll 6
  for (int q = 0; q < queries; ++q)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[q][j] = hn::LoadU(d, y + q * width + j * kLanes);
  const float* at = values + begin * width;
  for (std::int64_t key = begin; key < end; ++key, at += width) {
    V row[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) row[j] = hn::LoadU(d, at + j * kLanes);
#pragma GCC unroll 6
    for (int q = 0; q < queries; ++q) {
      const V weight = hn::Set(d, weights[q * kKeyBlock + key]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[q][j] = hn::MulAdd(weight, row[j], sum[q][j]);
    }
  }
#pragma GCC unroll 6
  for (int q = 0; q < queries; ++q)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) hn::StoreU(sum[q][j], d, y + q * width + j * kLanes);
}

template <int queries>
void add_some(const float* weights, const float* values, std::int64_t width, std::int64_t begin, std::int64_t end,
              float* y) {
  std::int64_t column = 0;
  for (; column + kVectors * kLanes <= width; column += kVectors * kLanes)
    add_columns<queries, kVectors>(weights, values + column, width, begin, end, y + column);
  for (; column < width; column += kLanes)
    add_columns<queries, 1>(weights, values + column, width, begin, end, y + column);
}

// The queries are done in tiles of six, of three and of one.
void scores(const float* queries, std::int64_t stride, const float* keys, std::int64_t size, std::int64_t count,
            float* to) {
  std::int64_t q = 0;
  for (; q + kQueries <= count; q += kQueries)
    some_scores<kQueries>(queries + q * stride, stride, keys, size, to + q * kKeyBlock);
  if (q + 3 <= count) some_scores<3>(queries + q * stride, stride, keys, size, to + q * kKeyBlock), q += 3;
  for (; q < count; ++q) some_scores<1>(queries + q * stride, stride, keys, size, to + q * kKeyBlock);
}

void add_weighted(const float* weights, const float* values, std::int64_t width, std::int64_t begin, std::int64_t end,
                  std::int64_t count, float* y) {
  std::int64_t q = 0;
  for (; q + kQueries <= count; q += kQueries)
    add_some<kQueries>(weights + q * kKeyBlock, values, width, begin, end, y + q * width);
  if (q + 3 <= count) add_some<3>(weights + q * kKeyBlock, values, width, begin, end, y + q * width), q += 3;
  for (; q < count; ++q) add_some<1>(weights + q * kKeyBlock, values, width, begin, end, y + q * width);
}

}  // namespace

const CacheBlocks* blocks_of_isa() {
  static constexpr CacheBlocks functions{transpose, scores, add_weighted};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(blocks_of_isa);

const CacheBlocks& cache_blocks() {
  return *HWY_DYNAMIC_DISPATCH(blocks_of_isa)();
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
