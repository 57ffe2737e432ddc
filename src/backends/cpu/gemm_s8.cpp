#include "backends/cpu/gemm_s8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/indirect_product_s8.h"
#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// Unsigned, so that arithmetic wraps.
using Word = std::uint32_t;

// Element or zero point `i` as it counts inside: shifted into the sign that its side has there.
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

// A as the product reads it: rows of whole groups of unsigned bytes, either where they are or copied; then for each row its zero
// point, and its sum less k times the zero point.
struct PackedLeft {
  std::uint8_t* copies;
  Word* zeros;
  Word* sums;

  PackedLeft(std::byte* from, std::int64_t m, std::int64_t k)
      : copies(reinterpret_cast<std::uint8_t*>(from)),
        zeros(reinterpret_cast<Word*>(from + round_up(m * round_up(k, kS8Group), 64))),
        sums(zeros + m) {}
};

bool needs_copy(const S8Operand& left, std::int64_t k) { return left.is_signed || k % kS8Group != 0; }

void pack_left_row(const S8Operand& left, std::int64_t row, std::int64_t k, bool with_sums, const PackedLeft& to) {
  const std::uint8_t flip = left.is_signed ? 0x80 : 0;
  const std::uint8_t* from = static_cast<const std::uint8_t*>(left.data) + row * k;
  if (needs_copy(left, k)) {
    const std::int64_t padded = round_up(k, kS8Group);
    std::uint8_t* copy = to.copies + row * padded;
    for (std::int64_t l = 0; l < k; ++l) copy[l] = static_cast<std::uint8_t>(from[l] ^ flip);
    std::fill(copy + k, copy + padded, std::uint8_t{0});
  }
  to.zeros[row] = zero_point(left, row, false);
  if (!with_sums) return;
  Word sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum += static_cast<std::uint8_t>(from[l] ^ flip);
  to.sums[row] = sum - static_cast<Word>(k) * to.zeros[row];
}

// What the packed panels of B take: of the last only whole vectors are kept.
std::int64_t right_panel_bytes(std::int64_t k, std::int64_t n) { return base::checked_multiply(round_up(n, kS8Lanes), round_up(k, kS8Group)); }

const Word* column_sums(const std::byte* packed_right, std::int64_t k, std::int64_t n) {
  return reinterpret_cast<const Word*>(packed_right + right_panel_bytes(k, n));
}

// One tile of plain sums to the output, the zero points taken out; `zeros` are those of B's columns.
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
      if (output.sums != nullptr)
        std::memcpy(output.sums + at, line, static_cast<std::size_t>(columns) * 4);
      else
        quantise(line, column, columns, at);
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
      // NaN (of a NaN scale) becomes the low end.
      const float bounded = value > low ? std::min(value, high) : low;
      to[j] = static_cast<std::uint8_t>(static_cast<std::int32_t>(bounded));
    }
  }
};

}  // namespace

std::int64_t gemm_s8_right_bytes(std::int64_t k, std::int64_t n) {
  return base::checked_add(right_panel_bytes(k, n), base::checked_multiply(round_up(n, kS8Lanes), 4));
}

std::int64_t gemm_s8_left_bytes(std::int64_t m, std::int64_t k) {
  return base::checked_add(round_up(base::checked_multiply(m, round_up(k, kS8Group)), 64),
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
  std::memcpy(bytes + right_panel_bytes(k, n), sums.data(), sums.size() * sizeof(Word));
}

void gemm_s8(const KernelContext& context, const S8Shape& shape, const S8Operand& left, const S8Operand& right,
             const std::byte* packed_right, std::byte* scratch, const S8Output& output) {
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  const PackedLeft packed_left(scratch, m, k);
  const std::int64_t padded = round_up(k, kS8Group), row_panels = ceil_divide(m, kS8Rows),
                     column_panels = ceil_divide(n, kS8Columns), lanes = round_up(n, kS8Lanes);
  std::vector<Word> zeros(static_cast<std::size_t>(lanes), 0);
  for (std::int64_t j = 0; j < n; ++j) zeros[static_cast<std::size_t>(j)] = zero_point(right, j, true);
  // With zero points of A's rows or of B's columns, the sums need more than their columns' constant.
  const bool plain = (left.zero_points == nullptr || left.zero_point_count == 1) && std::all_of(zeros.begin(), zeros.end(), [](Word zero) { return zero == 0; });
  context.parallel_for(m, std::max<std::int64_t>(1, 65536 / (padded + 1)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) pack_left_row(left, row, k, !plain, packed_left);
  });
  const bool copied = needs_copy(left, k);
  const std::uint8_t* rows_begin = copied ? packed_left.copies : static_cast<const std::uint8_t*>(left.data);
  const std::int64_t row_stride = copied ? padded : k;

  std::vector<std::int32_t> start(static_cast<std::size_t>(lanes), 0);
  std::vector<float> factors, offsets;
  IndirectProductS8 all{.segments = 1, .groups = padded / kS8Group, .start = start.data(), .ldc = n};
  if (plain) {
    const Word left_zero = zero_point(left, 0, false);
    for (std::int64_t j = 0; j < n; ++j) start[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(-(left_zero * column_sums(packed_right, k, n)[j]));
    if (output.sums == nullptr) {
      factors.assign(static_cast<std::size_t>(lanes), output.factors[0]);
      if (output.factors.size() > 1) std::copy(output.factors.begin(), output.factors.end(), factors.begin());
      offsets.assign(static_cast<std::size_t>(lanes), 0.0f);
      all.factor = factors.data();
      all.offset = offsets.data();
      all.zero = output.zero_point;
      all.low = static_cast<float>((output.is_signed ? -128 : 0) - output.zero_point);
      all.high = static_cast<float>((output.is_signed ? 127 : 255) - output.zero_point);
    }
  }
  // Tiles of about six million operations: whole panels of B where there are enough of them, else parts of A's rows
  // too.
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto wanted = static_cast<std::int64_t>(std::clamp(operations / 6e6, 1.0, 32.0));
  const std::int64_t column_chunks = std::min(wanted, column_panels);
  const std::int64_t row_chunks = std::min(ceil_divide(wanted, column_chunks), row_panels);
  const MultiplyS8 multiply = multiply_s8();
  context.parallel_for(column_chunks * row_chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t row_chunk = tile % row_chunks, column_chunk = tile / row_chunks;
      for (std::int64_t panel = column_panels * column_chunk / column_chunks;
           panel < column_panels * (column_chunk + 1) / column_chunks; ++panel) {
        const std::int64_t column = panel * kS8Columns;
        IndirectProductS8 product = all;
        product.columns = std::min(kS8Columns, n - column);
        product.right = reinterpret_cast<const std::int8_t*>(packed_right) + column * padded;
        product.start = start.data() + column;
        for (std::int64_t rows = row_panels * row_chunk / row_chunks; rows < row_panels * (row_chunk + 1) / row_chunks;
             ++rows) {
          const std::int64_t row = rows * kS8Rows;
          product.rows = std::min(kS8Rows, m - row);
          const std::uint8_t* pointers[kS8Rows];
          for (std::int64_t i = 0; i < product.rows; ++i) pointers[i] = rows_begin + (row + i) * row_stride;
          product.left = pointers;
          if (plain) {
            if (output.sums != nullptr) {
              product.sums = output.sums + row * n + column;
            } else {
              product.quantised = static_cast<std::uint8_t*>(output.quantised) + row * n + column;
              product.factor = factors.data() + column;
              product.offset = offsets.data() + column;
            }
            multiply(product);
            continue;
          }
          std::int32_t sums[kS8Rows * kS8Columns];
          product.sums = sums;
          product.ldc = kS8Columns;
          multiply(product);
          TileStore{output, packed_left, column_sums(packed_right, k, n), zeros.data(), n}(sums, row, product.rows, column, product.columns);
        }
      }
    }
  });
}

}  // namespace tessera::backends::cpu
