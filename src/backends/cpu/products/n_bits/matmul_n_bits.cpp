// MatMulNBits in float32 on weights of 2 to 8 bits where they lie in the model: dot products for few rows; for many
// rows a product whose right operand is dequantised part by part on the fly.
#include <algorithm>

#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/kernels.h"
#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/n_bits/matmul_n_bits.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_MATMUL_N_BITS
#define TESSERA_BACKENDS_CPU_MATMUL_N_BITS
namespace tessera::backends::cpu {

// Rows of weights in blocks that share a scale and a zero point. Several weights share a byte, the first in the lowest
// bits.
struct BlockWeights {
  const std::uint8_t* numbers = nullptr;       // [n, blocks, block_bytes]
  const float* scales = nullptr;               // [n, blocks]
  const std::uint8_t* packed_zeros = nullptr;  // [n, zero_bytes], or null
  const float* real_zeros = nullptr;           // [n, blocks], or null
  std::int64_t n = 0, k = 0, bits = 4, block = 0, blocks = 0;

  std::int64_t block_bytes() const { return block / 8 * bits; }
  std::int64_t zero_bytes() const { return (blocks * bits + 7) / 8; }
  const std::uint8_t* block_at(std::int64_t row, std::int64_t i) const {
    return numbers + (row * blocks + i) * block_bytes();
  }
  float zero(std::int64_t row, std::int64_t i) const {
    if (real_zeros != nullptr) return real_zeros[row * blocks + i];
    if (packed_zeros == nullptr) return static_cast<float>(1 << (bits - 1));
    const int byte = packed_zeros[row * zero_bytes() + i * bits / 8];
    return static_cast<float>(byte >> (i * bits % 8) & ((1 << bits) - 1));
  }
};

// Rows of A, each block split into planes by the position of the matching weight within its byte: element i of plane p
// is element i · planes + p of the block; 0 beyond the end of the row.
struct PlanarRows {
  const float* values = nullptr;  // [rows, blocks, planes, block_bytes]
  const float* sums = nullptr;    // [rows, blocks]
};

constexpr std::int64_t kRowsAtOnce = 4;

// Dot products of `rows` (1 to kRowsAtOnce) rows of A with row `column` of the weights.
using BlockDot = void (*)(const BlockWeights& weights, std::int64_t column, const PlanarRows& a, std::int64_t rows,
                          float* to);

struct BlockFunctions {
  BlockDot dot;
  // As `dot`, for weights without zero points, whose zero is 2^(bits-1); null if `dot` is as fast.
  BlockDot dot_around_zero;
  // Writes block i of row `row` as dequantised floats, in order.
  void (*dequantise)(const BlockWeights& weights, std::int64_t row, std::int64_t i, float* to);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The weights at position `p` within the bytes, which were promoted to 32 bits.
template <int kBits, int p, class DI, class VI>
HWY_INLINE auto plane(DI di, VI bytes) {
  return hn::And(hn::ShiftRight<kBits * p>(bytes), hn::Set(di, (1 << kBits) - 1));
}

template <int kBits, std::size_t kBytes, int kRows>
void dot_rows(const BlockWeights& weights, std::int64_t column, const PlanarRows& a, float* to) {
  const hn::CappedTag<float, kBytes> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> db;
  using V = hn::Vec<decltype(d)>;
  constexpr int kPlanes = 8 / kBits;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t bytes = weights.block_bytes(), row_stride = weights.blocks * weights.block;
  V total[kRows];
  float corrections[kRows] = {};
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = hn::Zero(d);
  for (std::int64_t b = 0; b < weights.blocks; ++b) {
    const std::uint8_t* numbers = weights.block_at(column, b);
    V sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    for (std::int64_t i = 0; i < bytes; i += lanes) {
      const auto packed = hn::PromoteTo(di, hn::LoadU(db, numbers + i));
      const float* at = a.values + b * weights.block + i;
      const auto add = [&](auto in_plane, std::int64_t p) HWY_ATTR {
        const V q = hn::ConvertTo(d, in_plane);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(q, hn::LoadU(d, at + r * row_stride + p * bytes), sum[r]);
      };
      add(plane<kBits, 0>(di, packed), 0);
      if constexpr (kPlanes > 1) add(plane<kBits, 1>(di, packed), 1);
      if constexpr (kPlanes > 2) add(plane<kBits, 2>(di, packed), 2);
      if constexpr (kPlanes > 2) add(plane<kBits, 3>(di, packed), 3);
    }
    const float scale = weights.scales[column * weights.blocks + b], offset = scale * weights.zero(column, b);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      total[r] = hn::MulAdd(sum[r], hn::Set(d, scale), total[r]);
      corrections[r] += offset * a.sums[r * weights.blocks + b];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) to[r] = hn::GetLane(hn::SumOfLanes(d, total[r])) - corrections[r];
}

// Converts 4-bit weights in the lowest bits of 32-bit lanes to floats, less 8; higher bits are ignored.
template <class D, class VI>
HWY_INLINE hn::Vec<D> centred_nibbles(D d, VI nibbles) {
#if HWY_TARGET <= HWY_AVX3
  HWY_ALIGN static constexpr float kReal[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return hn::Vec<D>{_mm512_permutexvar_ps(nibbles.raw, hn::Load(d, kReal).raw)};  // reads only the lowest 4 bits
#else
  const hn::RebindToSigned<D> di;
  return hn::ConvertTo(d, hn::Sub(hn::And(nibbles, hn::Set(di, 15)), hn::Set(di, 8)));
#endif
}

// Without zero points there is nothing to correct, and weights are dequantised in fewer steps.
template <int kBits, int kRows>
void dot_centred_rows(const BlockWeights& weights, std::int64_t column, const PlanarRows& a, float* to) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> db;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t bytes = weights.block_bytes(), blocks = weights.blocks, block = weights.block,
                     row_stride = blocks * block;
  const std::uint8_t* numbers = weights.block_at(column, 0);
  const float *scales = weights.scales + column * blocks, *at = a.values;
  // Two accumulators, so that a block need not wait for the previous one.
  V even[kRows], odd[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) even[r] = odd[r] = hn::Zero(d);
  const auto add_block = [&](std::int64_t b, V* total) HWY_ATTR {
    V sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    const std::uint8_t* from = numbers + b * bytes;
    const float* x = at + b * block;
    for (std::int64_t i = 0; i < bytes; i += lanes) {
      const auto add = [&](V q, std::int64_t offset) HWY_ATTR {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(q, hn::LoadU(d, x + i + offset + r * row_stride), sum[r]);
      };
      if constexpr (kBits == 4) {
        const auto packed = hn::PromoteTo(di, hn::LoadU(db, from + i));
        add(centred_nibbles(d, packed), 0);
        add(centred_nibbles(d, hn::ShiftRight<4>(packed)), bytes);
      } else {  // with its highest bit flipped, a weight in two's complement is itself less 128
        const hn::RebindToSigned<decltype(db)> ds;
        const auto turned = hn::BitCast(ds, hn::Xor(hn::LoadU(db, from + i), hn::Set(db, std::uint8_t{128})));
        add(hn::ConvertTo(d, hn::PromoteTo(di, turned)), 0);
      }
    }
    const V scale = hn::Set(d, scales[b]);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) total[r] = hn::MulAdd(sum[r], scale, total[r]);
  };
  std::int64_t b = 0;
  for (; b + 2 <= blocks; b += 2) {
    add_block(b, even);
    add_block(b + 1, odd);
  }
  if (b < blocks) add_block(b, even);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) to[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r], odd[r])));
}

template <int kBits>
void dot_centred(const BlockWeights& weights, std::int64_t column, const PlanarRows& a, std::int64_t rows, float* to) {
  switch (rows) {
    case 1:
      return dot_centred_rows<kBits, 1>(weights, column, a, to);
    case 2:
      return dot_centred_rows<kBits, 2>(weights, column, a, to);
    case 3:
      return dot_centred_rows<kBits, 3>(weights, column, a, to);
    default:
      return dot_centred_rows<kBits, 4>(weights, column, a, to);
  }
}

template <int kBits, std::size_t kBytes>
void dot(const BlockWeights& weights, std::int64_t column, const PlanarRows& a, std::int64_t rows, float* to) {
  switch (rows) {
    case 1:
      return dot_rows<kBits, kBytes, 1>(weights, column, a, to);
    case 2:
      return dot_rows<kBits, kBytes, 2>(weights, column, a, to);
    case 3:
      return dot_rows<kBits, kBytes, 3>(weights, column, a, to);
    default:
      return dot_rows<kBits, kBytes, 4>(weights, column, a, to);
  }
}

template <int kBits, std::size_t kBytes>
void dequantise(const BlockWeights& weights, std::int64_t row, std::int64_t block, float* to) {
  const hn::CappedTag<float, kBytes> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> db;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::uint8_t* numbers = weights.block_at(row, block);
  const auto scale = hn::Set(d, weights.scales[row * weights.blocks + block]),
             zero = hn::Set(d, weights.zero(row, block));
  for (std::int64_t i = 0; i < weights.block_bytes(); i += lanes) {
    const auto packed = hn::PromoteTo(di, hn::LoadU(db, numbers + i));
    const auto real = [&](auto in_plane) HWY_ATTR { return hn::Mul(hn::Sub(hn::ConvertTo(d, in_plane), zero), scale); };
    if constexpr (kBits == 8) {
      hn::StoreU(real(packed), d, to + i);
    } else if constexpr (kBits == 4) {
      hn::StoreInterleaved2(real(plane<4, 0>(di, packed)), real(plane<4, 1>(di, packed)), d, to + 2 * i);
    } else {
      hn::StoreInterleaved4(real(plane<2, 0>(di, packed)), real(plane<2, 1>(di, packed)), real(plane<2, 2>(di, packed)),
                            real(plane<2, 3>(di, packed)), d, to + 4 * i);
    }
  }
}

template <int kBits>
BlockFunctions functions_for(std::int64_t bytes) {
  if constexpr (kBits == 2) {
    if (bytes == 4) return {dot<kBits, 4>, nullptr, dequantise<kBits, 4>};
  }
  if constexpr (kBits < 8) {
    if (bytes == 8) return {dot<kBits, 8>, nullptr, dequantise<kBits, 8>};
  }
  if constexpr (kBits == 2) return {dot<kBits, 16>, nullptr, dequantise<kBits, 16>};
  else return {dot<kBits, 16>, dot_centred<kBits>, dequantise<kBits, 16>};
}

}  // namespace

// `block_bytes`: a power of two of at least 4 (2 bits), 8 (4 bits) or 16 (8 bits).
BlockFunctions block_functions(std::int64_t bits, std::int64_t block_bytes) {
  switch (bits) {
    case 2:
      return functions_for<2>(block_bytes);
    case 4:
      return functions_for<4>(block_bytes);
    default:
      return functions_for<8>(block_bytes);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(block_functions);

// The most rows for which dot products are faster: they dequantise each weight once per kRowsAtOnce rows, the product
// once per panel.
constexpr std::int64_t kFewRows = 20;

class MatMulNBits final : public Kernel {
 public:
  explicit MatMulNBits(const ops::NodeView& view) : m_(rows_of(view.input(0).shape)) {
    weights_.n = view.integer("N");
    weights_.k = view.integer("K");
    weights_.bits = view.integer("bits");
    weights_.block = view.integer("block_size");
    weights_.blocks = base::ceil_divide(weights_.k, weights_.block);
    functions_ = HWY_DYNAMIC_DISPATCH(block_functions)(weights_.bits, weights_.block_bytes());
  }

  std::int64_t scratch_bytes() const override {
    return m_ > kFewRows ? 0
                         : base::checked_multiply(
                               m_, weights_.blocks * (weights_.block + 1) * static_cast<std::int64_t>(sizeof(float)));
  }

  void run(KernelContext& context) const override {
    BlockWeights weights = weights_;
    weights.numbers = context.input(1).data<std::uint8_t>();
    weights.scales = context.input(2).data<float>();
    if (context.has_input(3) && context.input(3).dtype() == DType::u8)
      weights.packed_zeros = context.input(3).data<std::uint8_t>();
    else if (context.has_input(3)) weights.real_zeros = context.input(3).data<float>();
    const float* bias = context.has_input(5) ? context.input(5).data<float>() : nullptr;
    if (m_ > kFewRows) multiply(context, weights, bias);
    else if (m_ > 0) dot_products(context, weights, bias);
  }

 private:
  static std::int64_t rows_of(const Shape& shape) { return element_count(Shape(shape.begin(), shape.end() - 1)); }

  void dot_products(KernelContext& context, const BlockWeights& weights, const float* bias) const {
    auto* values = reinterpret_cast<float*>(context.scratch());
    const std::int64_t row_floats = weights.blocks * weights.block;
    float* sums = values + m_ * row_floats;
    const float* a = context.input(0).data<float>();
    for (std::int64_t r = 0; r < m_; ++r)
      lay_in_planes(a + r * weights.k, values + r * row_floats, sums + r * weights.blocks);
    float* c = context.output(0).mutable_data<float>();
    const bool around_zero = weights.packed_zeros == nullptr && weights.real_zeros == nullptr;
    const BlockDot dot =
        around_zero && functions_.dot_around_zero != nullptr ? functions_.dot_around_zero : functions_.dot;
    const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 16) / (row_floats * m_));
    context.parallel_for(weights.n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t column = begin; column < end; ++column) {
        for (std::int64_t r = 0; r < m_; r += kRowsAtOnce) {
          const std::int64_t rows = std::min(kRowsAtOnce, m_ - r);
          float made[kRowsAtOnce];
          dot(weights, column, {values + r * row_floats, sums + r * weights.blocks}, rows, made);
          for (std::int64_t i = 0; i < rows; ++i)
            c[(r + i) * weights.n + column] = made[i] + (bias != nullptr ? bias[column] : 0.0f);
        }
      }
    });
  }

  void lay_in_planes(const float* row, float* values, float* sums) const {
    const std::int64_t planes = 8 / weights_.bits, bytes = weights_.block_bytes();
    for (std::int64_t b = 0; b < weights_.blocks; ++b) {
      float sum = 0;
      for (std::int64_t i = 0; i < weights_.block; ++i) {
        const std::int64_t k = b * weights_.block + i;
        const float value = k < weights_.k ? row[k] : 0.0f;
        sum += value;
        values[b * weights_.block + i % planes * bytes + i / planes] = value;
      }
      sums[b] = sum;
    }
  }

  void multiply(KernelContext& context, const BlockWeights& weights, const float* bias) const {
    const std::pair state(&weights, &functions_);
    const GemmF32 gemm({m_, weights.n, weights.k}, false, false);
    Epilogue epilogue;
    epilogue.addend = bias;
    epilogue.addend_column_stride = 1;
    gemm_f32(context, gemm, GemmOperand::strided(context.input(0).data<float>(), weights.k, 1),
             GemmOperand::on_the_fly(pack, &state), context.output(0).mutable_data<float>(), weights.n, epilogue);
  }

  // A PackRight: columns of the right operand are rows of the weights.
  static void pack(const void* state, std::int64_t k_begin, std::int64_t k_count, std::int64_t column,
                   std::int64_t width, float* to, std::int64_t stride) {
    const auto& [weights, functions] =
        *static_cast<const std::pair<const BlockWeights*, const BlockFunctions*>*>(state);
    const std::int64_t block = weights->block, first = k_begin / block, last = (k_begin + k_count - 1) / block;
    const std::int64_t length = (last - first + 1) * block;
    // Dequantises several columns at a time, so that writes are contiguous. Columns beyond the width stay zero.
    constexpr std::int64_t kTogether = 8;
    thread_local std::vector<float> rows;
    for (std::int64_t c = 0; c < stride; c += kTogether) {
      const std::int64_t count = std::min(kTogether, stride - c);
      rows.assign(static_cast<std::size_t>(kTogether * length), 0.0f);
      for (std::int64_t i = c; i < std::min(c + count, width); ++i) {
        for (std::int64_t b = first; b <= last; ++b)
          functions->dequantise(*weights, column + i, b, rows.data() + (i - c) * length + (b - first) * block);
      }
      const float* from = rows.data() + (k_begin - first * block);
      for (std::int64_t k = 0; k < k_count; ++k) {
        for (std::int64_t i = 0; i < count; ++i) to[k * stride + c + i] = from[i * length + k];
      }
    }
  }

  BlockWeights weights_;
  BlockFunctions functions_;
  std::int64_t m_;
};

}  // namespace

std::string reject_matmul_n_bits(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return fmt::format("A of type {}; expected f32", name_of(view.input(0).dtype));
  return view.has_input(4) ? "blocks by g_idx" : "";
}

KernelPointer make_matmul_n_bits(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<MatMulNBits>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
