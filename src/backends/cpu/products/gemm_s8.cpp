#include "backends/cpu/products/gemm_s8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/product_split.h"
#include "backends/cpu/products/tile_rows.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// Unsigned, so that arithmetic wraps.
using Word = std::uint32_t;

// Element or zero point `i` as the product represents it: shifted to unsigned on the left side, to signed on the right.
Word shifted(const void* values, std::int64_t i, bool is_signed, bool right) {
  const int value =
      is_signed ? static_cast<const std::int8_t*>(values)[i] : static_cast<const std::uint8_t*>(values)[i];
  return static_cast<Word>(value + (right ? (is_signed ? 0 : -128) : (is_signed ? 128 : 0)));
}

Word zero_point(const S8Operand& operand, std::int64_t i, bool right) {
  static constexpr std::uint8_t kZero = 0;
  if (operand.zero_points == nullptr) return shifted(&kZero, 0, operand.is_signed, right);
  return shifted(operand.zero_points, operand.zero_point_count == 1 ? 0 : i, operand.is_signed, right);
}

// A in the layout of the product: rows of whole groups of unsigned bytes, in place or copied; per row its zero point,
// and its sum minus k times the zero point.
struct PackedLeft {
  std::uint8_t* copies;
  Word* zeros;
  Word* sums;

  PackedLeft(std::byte* from, std::int64_t m, std::int64_t k)
      : copies(reinterpret_cast<std::uint8_t*>(from)),
        zeros(reinterpret_cast<Word*>(from + round_up(m * copy_stride(k), 64))),
        sums(zeros + m) {}

  // Bytes from row to row of copies.
  static std::int64_t copy_stride(std::int64_t k) { return spread_row(round_up(k, kS8Group), 1); }
};

bool needs_copy(const S8Operand& left, std::int64_t k, std::int64_t n) {
  return left.is_signed || k % kS8Group != 0 || (n >= kManyColumns && PackedLeft::copy_stride(k) != k);
}

void pack_left_row(const S8Operand& left, std::int64_t row, std::int64_t k, bool copies, bool with_sums,
                   const PackedLeft& to) {
  const std::uint8_t flip = left.is_signed ? 0x80 : 0;
  const std::uint8_t* from = static_cast<const std::uint8_t*>(left.data) + row * k;
  if (copies) {
    const std::int64_t padded = round_up(k, kS8Group);
    std::uint8_t* copy = to.copies + row * PackedLeft::copy_stride(k);
    for (std::int64_t l = 0; l < k; ++l) copy[l] = static_cast<std::uint8_t>(from[l] ^ flip);
    std::fill(copy + k, copy + padded, std::uint8_t{0});
  }
  to.zeros[row] = zero_point(left, row, false);
  if (!with_sums) return;
  Word sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum += static_cast<std::uint8_t>(from[l] ^ flip);
  to.sums[row] = sum - static_cast<Word>(k) * to.zeros[row];
}

// Bytes of the packed panels of B; the last panel has only as many columns as fill whole vectors.
std::int64_t right_panel_bytes(std::int64_t k, std::int64_t n) {
  return base::checked_multiply(round_up(n, kS8Lanes), round_up(k, kS8Group));
}

const Word* column_sums(const std::byte* packed_right, std::int64_t k, std::int64_t n) {
  return reinterpret_cast<const Word*>(packed_right + right_panel_bytes(k, n));
}

// The flag of s8_pairs_fit(), stored behind the column sums of packed B.
const std::int32_t& pairs_fit(const std::byte* packed_right, std::int64_t k, std::int64_t n) {
  return reinterpret_cast<const std::int32_t&>(column_sums(packed_right, k, n)[round_up(n, kS8Lanes)]);
}

// Writes one tile of plain sums to the output and takes the zero points out. `zeros` are those of B's columns.
struct TileStore {
  const S8Output& output;
  const PackedLeft& left;
  const Word* column_sums;
  const Word* zeros;
  std::int64_t n;

  void operator()(const std::int32_t* tile, std::int64_t row, std::int64_t rows, std::int64_t column,
                  std::int64_t columns) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int32_t line[kS8Columns];
      const Word left_zero = left.zeros[row + i], left_sum = left.sums[row + i];
      for (std::int64_t j = 0; j < columns; ++j) {
        line[j] = static_cast<std::int32_t>(static_cast<Word>(tile[i * kS8Columns + j]) -
                                            left_zero * column_sums[column + j] - zeros[column + j] * left_sum);
      }
      const std::int64_t at = (row + i) * n + column;
      if (output.sums != nullptr) std::memcpy(output.sums + at, line, static_cast<std::size_t>(columns) * 4);
      else quantise(line, column, columns, at);
    }
  }

  void quantise(const std::int32_t* line, std::int64_t column, std::int64_t columns, std::int64_t at) const {
    const float low = output.is_signed ? -128.0f : 0.0f, high = output.is_signed ? 127.0f : 255.0f;
    const float* factors = output.factors.data() + (output.factors.size() == 1 ? 0 : column);
    const std::int64_t step = output.factors.size() == 1 ? 0 : 1;
    auto* to = static_cast<std::uint8_t*>(output.quantised) + at;
    for (std::int64_t j = 0; j < columns; ++j) {
      const float value =
          std::nearbyint(static_cast<float>(line[j]) * factors[j * step]) + static_cast<float>(output.zero_point);
      // NaN (from a NaN scale) becomes the lower bound.
      const float bounded = value > low ? std::min(value, high) : low;
      to[j] = static_cast<std::uint8_t>(static_cast<std::int32_t>(bounded));
    }
  }
};

}  // namespace

std::int64_t gemm_s8_right_bytes(std::int64_t k, std::int64_t n) {
  return base::checked_add(right_panel_bytes(k, n), base::checked_multiply(round_up(n, kS8Lanes) + 1, 4));
}

std::int64_t gemm_s8_left_bytes(std::int64_t m, std::int64_t k) {
  return base::checked_add(round_up(base::checked_multiply(m, PackedLeft::copy_stride(k)), 64),
                           base::checked_multiply(m, 8));
}

void gemm_s8_pack_right(const S8Operand& right, std::int64_t k, std::int64_t n, std::byte* to) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(to);
  std::memset(bytes, 0, static_cast<std::size_t>(right_panel_bytes(k, n)));
  std::vector<Word> sums(static_cast<std::size_t>(round_up(n, kS8Lanes)), 0);
  const std::uint8_t flip = right.is_signed ? 0 : 0x80;
  for (std::int64_t l = 0; l < k; ++l) {
    const std::uint8_t* from = static_cast<const std::uint8_t*>(right.data) + l * n;
    for (std::int64_t first = 0; first < n; first += kS8Columns) {
      const std::int64_t columns = std::min(kS8Columns, n - first), width = round_up(columns, kS8Lanes);
      std::uint8_t* group = bytes + first * round_up(k, kS8Group) + l / kS8Group * width * kS8Group + l % kS8Group;
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto value = static_cast<std::uint8_t>(from[first + j] ^ flip);
        group[j * kS8Group] = value;
        sums[static_cast<std::size_t>(first + j)] += static_cast<Word>(static_cast<std::int8_t>(value));
      }
    }
  }
  sums.push_back(s8_pairs_fit(reinterpret_cast<const std::int8_t*>(to), right_panel_bytes(k, n)));
  std::memcpy(bytes + right_panel_bytes(k, n), sums.data(), sums.size() * sizeof(Word));
}

namespace {

// The operands and terms that the tiles of one product share.
struct S8Product {
  const S8Shape& shape;
  const S8Output& output;
  const PackedLeft& left;
  const std::uint8_t* rows;  // of A, row_stride bytes apart
  std::int64_t row_stride;
  const std::byte* packed_right;
  const Word* zeros;  // per column of B
  const std::int32_t* start;
  // Whether sums need only constants per column. Zero points of A's rows or of B's columns need more.
  bool plain;
  const float *factors, *offsets;  // of plain products with a quantised result
  ProductSplit split;
  MultiplierS8 multiplier;

  void operator()(const ProductTile& tile) const {
    const std::uint8_t* pointers[kProductRows];
    for (std::int64_t i = 0; i < tile.rows; ++i) pointers[i] = rows + (tile.row + i) * row_stride;
    IndirectProductS8 product{.rows = tile.rows,
                              .tile_rows = multiplier.tile_rows,
                              .segments = 1,
                              .groups = tile.depth.groups,
                              .left = pointers,
                              .skipped = tile.depth.group * kS8Group,
                              .columns = tile.columns};
    const auto* weights = reinterpret_cast<const std::int8_t*>(packed_right);
    const std::int64_t column_bytes = split.segment_groups * kS8Group;
    const WeightRange ahead = split.ahead(tile, column_bytes);
    product.right = weights + tile.column * column_bytes;
    product.ahead = weights + ahead.first;
    product.ahead_bytes = ahead.bytes;
    product.pairs_fit = pairs_fit(packed_right, shape.k, shape.n) != 0;
    product.panel_groups = split.segment_groups;
    product.first_group = tile.depth.group;
    product.start = start + tile.column;
    product.begins = tile.depth.begins;
    product.ends = tile.depth.ends;
    if (auto* sums = split.partial_sums<std::int32_t>(); sums != nullptr) product.partial = sums + tile.partial;
    if (plain || !product.ends) store_plain(tile, product);
    else store_with_zeros(tile, product);
  }

 private:
  void store_plain(const ProductTile& tile, IndirectProductS8& product) const {
    const std::int64_t at = tile.row * shape.n + tile.column;
    product.ldc = shape.n;
    if (output.sums != nullptr) {
      product.sums = output.sums + at;
    } else if (plain) {
      product.quantised = static_cast<std::uint8_t*>(output.quantised) + at;
      product.factor = factors + tile.column;
      product.offset = offsets + tile.column;
      product.zero = output.zero_point;
      product.low = static_cast<float>((output.is_signed ? -128 : 0) - output.zero_point);
      product.high = static_cast<float>((output.is_signed ? 127 : 255) - output.zero_point);
    }
    multiplier.multiply(product);
  }

  // Computes plain sums panel by panel into a buffer, from which they are corrected for zero points and stored.
  void store_with_zeros(const ProductTile& tile, const IndirectProductS8& all) const {
    std::int32_t sums[kProductRows * kS8Columns];
    for (std::int64_t first = 0; first < tile.columns; first += kS8Columns) {
      IndirectProductS8 product = all;
      product.columns = std::min(kS8Columns, tile.columns - first);
      product.right += first * split.segment_groups * kS8Group;
      product.start += first;
      if (product.partial != nullptr) product.partial += first * multiplier.tile_rows;
      product.sums = sums;
      product.ldc = kS8Columns;
      multiplier.multiply(product);
      TileStore{output, left, column_sums(packed_right, shape.k, shape.n), zeros, shape.n}(
          sums, tile.row, tile.rows, tile.column + first, product.columns);
    }
  }
};

}  // namespace

void gemm_s8(const KernelContext& context, const S8Shape& shape, const S8Operand& left, const S8Operand& right,
             const std::byte* packed_right, std::byte* scratch, const S8Output& output) {
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  const PackedLeft packed_left(scratch, m, k);
  const std::int64_t padded = round_up(k, kS8Group), lanes = round_up(n, kS8Lanes);
  std::vector<Word> zeros(static_cast<std::size_t>(lanes), 0);
  for (std::int64_t j = 0; j < n; ++j) zeros[static_cast<std::size_t>(j)] = zero_point(right, j, true);
  const bool plain = (left.zero_points == nullptr || left.zero_point_count == 1) &&
                     std::all_of(zeros.begin(), zeros.end(), [](Word zero) { return zero == 0; });
  const bool copied = needs_copy(left, k, n);
  context.parallel_for(m, std::max<std::int64_t>(1, 65536 / (padded + 1)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) pack_left_row(left, row, k, copied, !plain, packed_left);
  });

  std::vector<std::int32_t> start(static_cast<std::size_t>(lanes), 0);
  std::vector<float> factors, offsets;
  if (plain) {
    const Word left_zero = zero_point(left, 0, false);
    for (std::int64_t j = 0; j < n; ++j)
      start[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(-(left_zero * column_sums(packed_right, k, n)[j]));
    if (output.sums == nullptr) {
      factors.assign(static_cast<std::size_t>(lanes), output.factors[0]);
      if (output.factors.size() > 1) std::copy(output.factors.begin(), output.factors.end(), factors.begin());
      offsets.assign(static_cast<std::size_t>(lanes), 0.0f);
    }
  }
  constexpr double kChunkOperations = 6e6, kTileChunkOperations = 2e7;
  const MultiplierS8 multiplier = multiplier_s8(m);
  ProductSplit split{.rows = m,
                     .columns = n,
                     .tile_rows = multiplier.tile_rows,
                     .tile_columns = kS8Columns,
                     .segment_groups = padded / kS8Group,
                     .depth_step = multiplier.depth_step,
                     .tile_registers = multiplier.tiles};
  split.choose(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
               multiplier.tiles ? kTileChunkOperations : kChunkOperations, kS8Columns * padded, m * padded, padded);
  const S8Product product{shape,
                          output,
                          packed_left,
                          copied ? packed_left.copies : static_cast<const std::uint8_t*>(left.data),
                          copied ? PackedLeft::copy_stride(k) : k,
                          packed_right,
                          zeros.data(),
                          start.data(),
                          plain,
                          factors.data(),
                          offsets.data(),
                          split,
                          multiplier};
  context.parallel_for(split.chunks(), split.grain, [&](std::int64_t begin, std::int64_t end) {
    const TileScope scope;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) split.for_each_tile(chunk, product);
  });
}

bool gemm_s8_has_zeros(const S8Operand& right) {
  for (std::int64_t j = 0; j < std::max<std::int64_t>(1, right.zero_point_count); ++j) {
    if (zero_point(right, j, true) != 0) return true;
  }
  return false;
}

std::int64_t gemm_s8_left_stride(std::int64_t k) {
  return round_up(k, kS8Group);
}

void gemm_s8_serial(const S8Shape& shape, const std::uint8_t* left, std::uint8_t left_zero, const S8Operand& right,
                    bool has_zeros, const std::byte* packed_right, std::int32_t* sums) {
  const auto [m, n, k] = shape;
  const std::int64_t stride = gemm_s8_left_stride(k);
  const Word* totals = column_sums(packed_right, k, n);
  thread_local std::vector<std::int32_t> start;
  start.assign(static_cast<std::size_t>(round_up(n, kS8Lanes)), 0);
  for (std::int64_t j = 0; j < n; ++j)
    start[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(-(Word{left_zero} * totals[j]));
  const MultiplierS8 multiplier = vector_multiplier_s8();
  for (std::int64_t row = 0; row < m; row += multiplier.tile_rows) {
    base::yield_point();
    const std::uint8_t* pointers[kProductRows];
    const std::int64_t rows = std::min(multiplier.tile_rows, m - row);
    for (std::int64_t i = 0; i < rows; ++i) pointers[i] = left + (row + i) * stride;
    IndirectProductS8 product{.rows = rows,
                              .tile_rows = multiplier.tile_rows,
                              .segments = 1,
                              .groups = stride / kS8Group,
                              .left = pointers,
                              .right = reinterpret_cast<const std::int8_t*>(packed_right),
                              .panel_groups = stride / kS8Group,
                              .columns = n};
    product.pairs_fit = pairs_fit(packed_right, k, n) != 0;
    product.start = start.data();
    product.sums = sums + row * n;
    product.ldc = n;
    multiplier.multiply(product);
  }
  for (std::int64_t row = 0; row < m && has_zeros; ++row) {
    Word sum = 0;  // of the row, less its zero points
    for (std::int64_t l = 0; l < k; ++l) sum += left[row * stride + l];
    sum -= static_cast<Word>(k) * left_zero;
    for (std::int64_t j = 0; j < n; ++j)
      sums[row * n + j] =
          static_cast<std::int32_t>(static_cast<Word>(sums[row * n + j]) - zero_point(right, j, true) * sum);
  }
}

}  // namespace tessera::backends::cpu
