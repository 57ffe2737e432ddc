#include "backends/cpu/gemm_s8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/gemm_s8_panel.h"
#include "backends/cpu/simd.h"
#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// Unsigned, so that arithmetic wraps.
using Word = std::uint32_t;

using Multiply = void (*)(const S8Panel&);

Multiply multiply_function() {
#if defined(__x86_64__)
  if (active_vnni()) return multiply_s8_vnni;
  if (active_isa() != base::Isa::scalar) return multiply_s8_avx2;
#endif
  return multiply_s8_scalar;
}

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

// Packed A: panels, then for each row its zero point, then its sum less k times the zero point.
struct PackedLeft {
  std::uint8_t* panels;
  Word* zeros;
  Word* sums;

  PackedLeft(std::byte* from, std::int64_t m, std::int64_t k)
      : panels(reinterpret_cast<std::uint8_t*>(from)),
        zeros(reinterpret_cast<Word*>(from + round_up(m * round_up(k, kS8Group), 64))),
        sums(zeros + m) {}
};

void pack_left_panel(const S8Operand& left, std::int64_t row, std::int64_t rows, std::int64_t k, const PackedLeft& to) {
  std::uint8_t* panel = to.panels + row * round_up(k, kS8Group);
  const std::uint8_t flip = left.is_signed ? 0x80 : 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::uint8_t* from = static_cast<const std::uint8_t*>(left.data) + (row + i) * k;
    Word sum = 0;
    for (std::int64_t l = 0; l < k; ++l) sum += static_cast<std::uint8_t>(from[l] ^ flip);
    const Word flips = flip * Word{0x01010101};
    std::int64_t group = 0;
    for (; (group + 1) * kS8Group <= k; ++group) {
      Word four;
      std::memcpy(&four, from + group * kS8Group, 4);
      four ^= flips;
      std::memcpy(panel + (group * rows + i) * kS8Group, &four, 4);
    }
    for (std::int64_t l = group * kS8Group; l < round_up(k, kS8Group); ++l) {
      panel[(group * rows + i) * kS8Group + l % kS8Group] = l < k ? static_cast<std::uint8_t>(from[l] ^ flip) : 0;
    }
    to.zeros[row + i] = zero_point(left, row + i, false);
    to.sums[row + i] = sum - static_cast<Word>(k) * to.zeros[row + i];
  }
}

const Word* column_sums(const std::byte* packed_right, std::int64_t k, std::int64_t n) {
  return reinterpret_cast<const Word*>(packed_right + round_up(n, kS8Columns) * round_up(k, kS8Group));
}

// One register tile to the output; `zeros` are B's zero points of its columns.
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
                                            left_zero * column_sums[column + j] - zeros[j] * left_sum);
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

void multiply_s8_scalar(const S8Panel& panel) {
  for (std::int64_t i = 0; i < panel.rows; ++i) {
    std::int32_t* sums = panel.sums + i * kS8Columns;
    std::fill(sums, sums + kS8Columns, 0);
    for (std::int64_t group = 0; group < panel.groups; ++group) {
      const std::uint8_t* a = panel.left + (group * panel.rows + i) * kS8Group;
      const std::int8_t* b = panel.right + group * kS8Columns * kS8Group;
      for (std::int64_t j = 0; j < kS8Columns; ++j, b += kS8Group) {
        sums[j] = static_cast<std::int32_t>(static_cast<Word>(sums[j]) +
                                            static_cast<Word>(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]));
      }
    }
  }
}

std::int64_t gemm_s8_right_bytes(std::int64_t k, std::int64_t n) {
  const std::int64_t columns = round_up(n, kS8Columns);
  return base::checked_add(base::checked_multiply(columns, round_up(k, kS8Group)), base::checked_multiply(columns, 4));
}

std::int64_t gemm_s8_left_bytes(std::int64_t m, std::int64_t k) {
  return base::checked_add(round_up(base::checked_multiply(m, round_up(k, kS8Group)), 64),
                           base::checked_multiply(m, 8));
}

void gemm_s8_pack_right(const S8Operand& right, std::int64_t k, std::int64_t n, std::byte* to) {
  const std::int64_t padded = round_up(k, kS8Group);
  auto* bytes = reinterpret_cast<std::uint8_t*>(to);
  std::memset(bytes, 0, static_cast<std::size_t>(round_up(n, kS8Columns) * padded));
  std::vector<Word> sums(static_cast<std::size_t>(round_up(n, kS8Columns)), 0);
  const std::uint8_t flip = right.is_signed ? 0 : 0x80;
  for (std::int64_t l = 0; l < k; ++l) {
    const std::uint8_t* from = static_cast<const std::uint8_t*>(right.data) + l * n;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto value = static_cast<std::uint8_t>(from[j] ^ flip);
      bytes[j / kS8Columns * kS8Columns * padded + (l / kS8Group * kS8Columns + j % kS8Columns) * kS8Group +
            l % kS8Group] = value;
      sums[static_cast<std::size_t>(j)] += static_cast<Word>(static_cast<std::int8_t>(value));
    }
  }
  std::memcpy(bytes + round_up(n, kS8Columns) * padded, sums.data(), sums.size() * sizeof(Word));
}

void gemm_s8(const KernelContext& context, const S8Shape& shape, const S8Operand& left, const S8Operand& right,
             const std::byte* packed_right, std::byte* scratch, const S8Output& output) {
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  const PackedLeft packed_left(scratch, m, k);
  const std::int64_t padded = round_up(k, kS8Group), row_panels = ceil_divide(m, kS8Rows),
                     column_panels = ceil_divide(n, kS8Columns);
  context.parallel_for(
      row_panels, std::max<std::int64_t>(1, 65536 / (kS8Rows * padded + 1)), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t panel = begin; panel < end; ++panel) {
          pack_left_panel(left, panel * kS8Rows, std::min(kS8Rows, m - panel * kS8Rows), k, packed_left);
        }
      });
  // Tiles of about six million operations: whole panels of B where there are enough of them, else parts of A's rows
  // too.
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto wanted = static_cast<std::int64_t>(std::clamp(operations / 6e6, 1.0, 32.0));
  const std::int64_t column_chunks = std::min(wanted, column_panels);
  const std::int64_t row_chunks = std::min(ceil_divide(wanted, column_chunks), row_panels);
  const Multiply multiply = multiply_function();
  context.parallel_for(column_chunks * row_chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t row_chunk = tile % row_chunks, column_chunk = tile / row_chunks;
      for (std::int64_t panel = column_panels * column_chunk / column_chunks;
           panel < column_panels * (column_chunk + 1) / column_chunks; ++panel) {
        const std::int64_t column = panel * kS8Columns;
        Word zeros[kS8Columns];
        for (std::int64_t j = 0; j < kS8Columns; ++j) zeros[j] = zero_point(right, std::min(column + j, n - 1), true);
        const TileStore store{output, packed_left, column_sums(packed_right, k, n), zeros, n};
        for (std::int64_t rows = row_panels * row_chunk / row_chunks; rows < row_panels * (row_chunk + 1) / row_chunks;
             ++rows) {
          const std::int64_t row = rows * kS8Rows;
          std::int32_t sums[kS8Rows * kS8Columns];
          const S8Panel product{std::min(kS8Rows, m - row), padded / kS8Group, packed_left.panels + row * padded,
                                reinterpret_cast<const std::int8_t*>(packed_right) + column * padded, sums};
          multiply(product);
          store(sums, row, product.rows, column, std::min(kS8Columns, n - column));
        }
      }
    }
  });
}

}  // namespace tessera::backends::cpu
