// BlockLinear: each row of the weights is decoded once per run to 8-bit codes, and multiplied by all rows of X, which
// were rounded to 8 bits in blocks. Integer sums of a group of weights are scaled and added in float32, vector
// lane by lane, in the order of the groups, whatever the number of rows: a row of Y has the same bits beside any
// others. Where activations stay exact, the row is decoded to float32 instead.
#include "ops/products/block_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/products/kernels.h"
#include "base/numbers/block_format.h"
#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/block_linear.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_BLOCK_LINEAR
#define TESSERA_BACKENDS_CPU_BLOCK_LINEAR
namespace tessera::backends::cpu {

constexpr std::int64_t kRowsTogether = 4;

// A row of weights as codes. Scales and offsets are padded with zeros to a multiple of 8 groups.
struct CodedRow {
  std::vector<std::int8_t> codes;
  std::vector<float> scales, offsets;
  std::int64_t group = 0, groups = 0;
};

// Rows of X rounded to 8 bits.
struct RoundedRows {
  const std::int8_t* codes;  // [rows, k]
  const float* scales;       // [rows, k / block]
  const float* sums;         // [rows, padded groups]: the sums of the rounded elements of each group of weights
  std::int64_t k, block, padded;
};

struct BlockLinearFunctions {
  // Rounds one row, and writes the sums of its groups.
  void (*round_row)(const float* x, std::int64_t k, std::int64_t block, std::int64_t group, std::int8_t* codes,
                    float* scales, float* sums);
  // The products of a row of weights with `count` (1 to kRowsTogether) rows from `row` on.
  void (*multiply)(const CodedRow& weights, const RoundedRows& x, std::int64_t row, std::int64_t count, float* to);
  // The products in float32, with `count` rows of `k` elements that lie one after the other.
  void (*multiply_exactly)(const float* weights, const float* x, std::int64_t k, std::int64_t count, float* to);
  // Splits bytes of two 4-bit codes: the low ones of 16 bytes, and behind them the high ones.
  void (*split_codes)(const std::uint8_t* from, std::int8_t* to);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void round_row(const float* x, std::int64_t k, std::int64_t block, std::int64_t group, std::int8_t* codes,
               float* scales, float* sums) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::int8_t, decltype(d)> db;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t begin = 0; begin < k; begin += block) {
    auto largest = hn::Zero(d);
    bool is_finite = true;
    for (std::int64_t i = begin; i < begin + block; i += lanes) {
      const auto values = hn::LoadU(d, x + i);
      is_finite = is_finite && hn::AllTrue(d, hn::IsFinite(values));
      largest = hn::Max(largest, hn::Abs(values));
    }
    const float most = hn::GetLane(hn::MaxOfLanes(d, largest)), scale = most / 127.0f;
    const bool has_codes = is_finite && scale >= std::numeric_limits<float>::min();
    scales[begin / block] = has_codes ? scale : is_finite ? 0 : std::numeric_limits<float>::quiet_NaN();
    const auto factor = hn::Set(d, has_codes ? 127.0f / most : 0.0f);
    for (std::int64_t i = begin; i < begin + block; i += lanes) {
      const auto rounded = has_codes ? hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), factor)) : hn::Zero(di);
      hn::StoreU(hn::DemoteTo(db, rounded), db, codes + i);
    }
    for (std::int64_t first = begin; first < begin + block; first += group) {
      int sum = 0;
      for (std::int64_t i = first; i < first + group; ++i) sum += codes[i];
      sums[first / group] = scales[begin / block] * static_cast<float>(sum);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

template <int kRows>
void multiply_rows(const CodedRow& weights, const RoundedRows& x, std::int64_t row, float* to) {
  const std::int64_t group = weights.group, per_block = x.block / group, blocks = x.k / x.block;
  for (int r = 0; r < kRows; ++r) {
    float total = 0;
    for (std::int64_t g = 0; g < weights.groups; ++g) {
      int sum = 0;
      for (std::int64_t i = g * group; i < (g + 1) * group; ++i)
        sum += weights.codes[static_cast<std::size_t>(i)] * x.codes[(row + r) * x.k + i];
      const auto at = static_cast<std::size_t>(g);
      total += static_cast<float>(sum) * (weights.scales[at] * x.scales[(row + r) * blocks + g / per_block]);
      total += weights.offsets[at] * x.sums[(row + r) * x.padded + g];
    }
    to[r] = total;
  }
}

void split_codes(const std::uint8_t* from, std::int8_t* to) {
  for (int i = 0; i < 16; ++i) {
    to[i] = static_cast<std::int8_t>(from[i] & 15);
    to[16 + i] = static_cast<std::int8_t>(from[i] >> 4);
  }
}

#else

template <int kRows>
void multiply_rows(const CodedRow& weights, const RoundedRows& x, std::int64_t row, float* to) {
  const hn::CappedTag<std::int16_t, 16> d16;
  const hn::Rebind<std::int8_t, decltype(d16)> d8;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::RebindToFloat<decltype(d32)> df;
  using V = hn::Vec<decltype(df)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d16)), floats = static_cast<std::int64_t>(hn::Lanes(df));
  const std::int64_t group = weights.group, per_block = x.block / group, blocks = x.k / x.block;
  V total[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = hn::Zero(df);
  for (std::int64_t g = 0; g < weights.groups; ++g) {
    hn::Vec<decltype(d32)> sum[kRows], carry[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = carry[r] = hn::Zero(d32);
    for (std::int64_t i = g * group; i < (g + 1) * group; i += lanes) {
      const auto code = hn::PromoteTo(d16, hn::LoadU(d8, weights.codes.data() + i));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        sum[r] = hn::ReorderWidenMulAccumulate(
            d32, code, hn::PromoteTo(d16, hn::LoadU(d8, x.codes + (row + r) * x.k + i)), sum[r], carry[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float scale = weights.scales[static_cast<std::size_t>(g)] * x.scales[(row + r) * blocks + g / per_block];
      total[r] = hn::MulAdd(hn::ConvertTo(df, hn::Add(sum[r], carry[r])), hn::Set(df, scale), total[r]);
    }
  }
  for (std::int64_t g = 0; g < x.padded; g += floats) {
    const V offset = hn::LoadU(df, weights.offsets.data() + g);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      total[r] = hn::MulAdd(offset, hn::LoadU(df, x.sums + (row + r) * x.padded + g), total[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) to[r] = hn::GetLane(hn::SumOfLanes(df, total[r]));
}

void split_codes(const std::uint8_t* from, std::int8_t* to) {
  const hn::CappedTag<std::uint8_t, 16> d;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, std::uint8_t{15});
  for (std::int64_t i = 0; i < 16; i += lanes) {
    const auto bytes = hn::LoadU(d, from + i);
    const auto high = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, bytes)));
    hn::StoreU(hn::And(bytes, low), d, reinterpret_cast<std::uint8_t*>(to) + i);
    hn::StoreU(hn::And(high, low), d, reinterpret_cast<std::uint8_t*>(to) + 16 + i);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

void multiply(const CodedRow& weights, const RoundedRows& x, std::int64_t row, std::int64_t count, float* to) {
  switch (count) {
    case 1:
      return multiply_rows<1>(weights, x, row, to);
    case 2:
      return multiply_rows<2>(weights, x, row, to);
    case 3:
      return multiply_rows<3>(weights, x, row, to);
    default:
      return multiply_rows<4>(weights, x, row, to);
  }
}

// One element after the other per lane, the rest of a row that fills no vector last.
template <int kRows>
void multiply_rows_exactly(const float* weights, const float* x, std::int64_t k, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> total[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const auto weight = hn::LoadU(d, weights + i);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) total[r] = hn::MulAdd(weight, hn::LoadU(d, x + r * k + i), total[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float sum = hn::GetLane(hn::SumOfLanes(d, total[r]));
    for (std::int64_t rest = i; rest < k; ++rest) sum += weights[rest] * x[r * k + rest];
    to[r] = sum;
  }
}

void multiply_exactly(const float* weights, const float* x, std::int64_t k, std::int64_t count, float* to) {
  switch (count) {
    case 1:
      return multiply_rows_exactly<1>(weights, x, k, to);
    case 2:
      return multiply_rows_exactly<2>(weights, x, k, to);
    case 3:
      return multiply_rows_exactly<3>(weights, x, k, to);
    default:
      return multiply_rows_exactly<4>(weights, x, k, to);
  }
}

}  // namespace

BlockLinearFunctions block_linear_functions() {
  return {round_row, multiply, multiply_exactly, split_codes};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(block_linear_functions);

using base::BlockFormat;

// A float16 as float32, of a finite number.
float scale_at(const std::byte* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFF) << 13;
  const std::uint32_t value = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(value | static_cast<std::uint32_t>(half & 0x8000) << 16);
}

class BlockLinear final : public Kernel {
 public:
  explicit BlockLinear(const ops::NodeView& view)
      : sizes_(ops::block_weights_of(view)),
        layout_(&base::layout_of(sizes_.format)),
        group_(base::group_of(sizes_.format)),
        block_(ops::activation_block(sizes_.format)),
        rounds_(view.integer("exact") == 0 && block_ > 0),
        rows_(view.input(0).elements() / sizes_.k),
        padded_(rounds_ ? base::round_up(sizes_.k / group_, 8) : 0),
        functions_(HWY_DYNAMIC_DISPATCH(block_linear_functions)()) {
    if (!rounds_) return;
    scales_at_ = base::round_up(base::checked_multiply(rows_, sizes_.k), 64);
    sums_at_ = scales_at_ + base::round_up(rows_ * (sizes_.k / block_) * kFloat, 64);
    scratch_ = sums_at_ + rows_ * padded_ * kFloat;
  }

  std::int64_t scratch_bytes() const override { return scratch_; }

  void run(KernelContext& context) const override {
    if (rows_ == 0) return;
    const float* x = context.input(0).data<float>();
    RoundedRows rounded{};
    if (rounds_) rounded = round(context, x);
    const std::byte* weights = reinterpret_cast<const std::byte*>(context.input(1).data<std::uint8_t>());
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t grain =
        std::max<std::int64_t>(1, (std::int64_t{1} << 17) / (sizes_.k * std::min<std::int64_t>(rows_, 64)));
    context.parallel_for(sizes_.n, grain, [&](std::int64_t begin, std::int64_t end) {
      // The rows of a thread keep their memory between runs.
      thread_local CodedRow coded;
      thread_local std::vector<float> exact;
      for (std::int64_t column = begin; column < end; ++column) {
        const std::byte* row = weights + column * sizes_.row_bytes;
        if (rounds_) decode(row, coded);
        else decode(row, exact);
        for (std::int64_t r = 0; r < rows_; r += kRowsTogether) {
          const std::int64_t count = std::min(kRowsTogether, rows_ - r);
          float made[kRowsTogether];
          if (rounds_) functions_.multiply(coded, rounded, r, count, made);
          else functions_.multiply_exactly(exact.data(), x + r * sizes_.k, sizes_.k, count, made);
          for (std::int64_t i = 0; i < count; ++i)
            y[(r + i) * sizes_.n + column] = made[i] + (bias != nullptr ? bias[column] : 0.0f);
        }
      }
    });
  }

 private:
  static constexpr std::int64_t kFloat = sizeof(float);

  RoundedRows round(KernelContext& context, const float* x) const {
    std::byte* scratch = context.scratch();
    auto* codes = reinterpret_cast<std::int8_t*>(scratch);
    auto* scales = reinterpret_cast<float*>(scratch + scales_at_);
    auto* sums = reinterpret_cast<float*>(scratch + sums_at_);
    const std::int64_t k = sizes_.k, groups = k / group_;
    context.parallel_for(rows_, std::max<std::int64_t>(1, 16384 / k), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        functions_.round_row(x + r * k, k, block_, group_, codes + r * k, scales + r * (k / block_),
                             sums + r * padded_);
        std::fill(sums + r * padded_ + groups, sums + (r + 1) * padded_, 0.0f);
      }
    });
    return {codes, scales, sums, k, block_, padded_};
  }

  void decode(const std::byte* row, std::vector<float>& to) const {
    to.resize(static_cast<std::size_t>(sizes_.k));
    base::dequantize(sizes_.format, {row, static_cast<std::size_t>(sizes_.row_bytes)}, to);
  }

  void decode(const std::byte* row, CodedRow& to) const {
    to.group = group_;
    to.groups = sizes_.k / group_;
    to.codes.resize(static_cast<std::size_t>(sizes_.k));
    to.scales.assign(static_cast<std::size_t>(padded_), 0.0f);
    to.offsets.assign(static_cast<std::size_t>(padded_), 0.0f);
    const std::int64_t blocks = sizes_.k / layout_->elements;
    for (std::int64_t block = 0; block < blocks; ++block, row += layout_->bytes) {
      std::int8_t* codes = to.codes.data() + block * layout_->elements;
      float *scale = to.scales.data() + block * (layout_->elements / group_),
            *offset = to.offsets.data() + block * (layout_->elements / group_);
      decode_block(row, codes, scale, offset);
    }
  }

  // The formats that most weights have are decoded here, others as their definition says.
  void decode_block(const std::byte* block, std::int8_t* codes, float* scale, float* offset) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block);
    switch (sizes_.format) {
      case BlockFormat::q4_0:
        functions_.split_codes(bytes + 2, codes);
        *scale = scale_at(block);
        *offset = -8 * *scale;
        return;
      case BlockFormat::q4_1:
        functions_.split_codes(bytes + 4, codes);
        *scale = scale_at(block);
        *offset = scale_at(block + 2);
        return;
      case BlockFormat::q8_0:
        std::memcpy(codes, bytes + 2, 32);
        *scale = scale_at(block);
        return;
      default: {
        base::CodedBlock coded;
        base::decode_block(sizes_.format, block, coded);
        const std::int64_t groups = layout_->elements / group_;
        std::copy(coded.codes, coded.codes + layout_->elements, codes);
        std::copy(coded.scales, coded.scales + groups, scale);
        std::copy(coded.offsets, coded.offsets + groups, offset);
      }
    }
  }

  ops::BlockWeights sizes_;
  const base::BlockLayout* layout_;
  std::int64_t group_, block_;
  bool rounds_;
  std::int64_t rows_, padded_;
  BlockLinearFunctions functions_;
  std::int64_t scales_at_ = 0, sums_at_ = 0, scratch_ = 0;
};

}  // namespace

KernelPointer make_block_linear(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<BlockLinear>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
