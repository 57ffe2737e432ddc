#include "backends/cpu/products/windows/indirect_product_s8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/tile_rows.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

// Computes in unsigned words, so that arithmetic wraps.
std::int32_t shifted_sum(std::int32_t sum, std::int32_t window_sum, std::int32_t shift) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) +
                                   static_cast<std::uint32_t>(window_sum) * static_cast<std::uint32_t>(shift));
}

}  // namespace

void store_s8_sums(const IndirectProductS8& product, const std::int32_t* sums, std::int64_t first_column,
                   std::int64_t columns) {
  for (std::int64_t i = 0; i < product.rows; ++i, sums += kS8Columns) {
    const std::int64_t at = i * product.ldc + first_column;
    if (product.sums != nullptr) {
      std::memcpy(product.sums + at, sums, static_cast<std::size_t>(columns) * sizeof(std::int32_t));
      continue;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int32_t sum = product.window_sums == nullptr
                                   ? sums[j]
                                   : shifted_sum(sums[j], product.window_sums[i], product.shift[first_column + j]);
      const float value = static_cast<float>(sum) * product.factor[first_column + j] + product.offset[first_column + j];
      if (product.real != nullptr) {
        // NaN (from a NaN scale) stays NaN.
        product.real[at + j] = value < product.low ? product.low : value > product.high ? product.high : value;
      } else {
        // NaN becomes the lower bound.
        const float bounded = value > product.low ? std::min(value, product.high) : product.low;
        float q = std::nearbyint(bounded);
        std::int32_t zero = product.zero;
        if (product.addend != nullptr) {
          const S8Sum& s = product.sum;
          const float total = s.own * q + (s.other * static_cast<float>(product.addend[at + j]) + s.shift);
          q = std::nearbyint(total > s.low ? std::min(total, s.high) : s.low);
          zero = s.zero;
        }
        product.quantised[at + j] = static_cast<std::uint8_t>(static_cast<std::int32_t>(q) + zero);
      }
    }
  }
}

bool s8_pairs_fit(const std::int8_t* weights, std::int64_t count) {
  constexpr int kMost = 32767 / 255;
  int largest = 0;
  for (std::int64_t i = 0; i + 1 < count; i += 2) {
    const int first = weights[i], second = weights[i + 1];
    largest = std::max({largest, std::max(first, 0) + std::max(second, 0), std::max(-first, 0) + std::max(-second, 0)});
  }
  return largest <= kMost;
}

void multiply_s8_scalar(const IndirectProductS8& product) {
  using Word = std::uint32_t;  // unsigned, so that arithmetic wraps
  const std::int8_t* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += kS8Columns) {
    const std::int64_t columns = std::min(kS8Columns, product.columns - column),
                       width = base::round_up(columns, kS8Lanes);
    std::int32_t here[kS8Rows * kS8Columns];
    std::int32_t* partial = product.partial == nullptr ? nullptr : product.partial + column * product.tile_rows;
    std::int32_t* sums = product.ends ? here : partial;
    for (std::int64_t i = 0; i < product.rows; ++i) {
      std::int32_t* sum = sums + i * kS8Columns;
      const std::int32_t* start = product.begins ? product.start + column : partial + i * kS8Columns;
      if (start != sum) std::copy_n(start, width, sum);
      const std::int8_t* b = right + product.first_group * width * kS8Group;
      for (std::int64_t s = 0; s < product.segments; ++s) {
        const std::uint8_t* a = product.left[s * product.tile_rows + i] + product.skipped;
        for (std::int64_t group = 0; group < product.groups; ++group, a += kS8Group) {
          for (std::int64_t j = 0; j < width; ++j, b += kS8Group) {
            sum[j] = static_cast<std::int32_t>(
                static_cast<Word>(sum[j]) + static_cast<Word>(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]));
          }
        }
      }
    }
    if (product.ends) store_s8_sums(product, sums, column, columns);
    right += product.panel_groups * width * kS8Group;
  }
}

MultiplierS8 multiplier_s8([[maybe_unused]] std::int64_t rows) {
  if (emulates_tiles()) return {multiply_s8_emulated, kProductRows, kTileGroups, true};
#if defined(__x86_64__)
  if (active_tiles() && rows >= kFewestTileRows) return {multiply_s8_amx, kProductRows, kTileGroups, true};
#endif
  return vector_multiplier_s8();
}

MultiplierS8 vector_multiplier_s8() {
#if defined(__x86_64__)
  if (active_vnni()) return {multiply_s8_avx512vnni, kS8Rows, 1, false};
  if (active_isa() != base::Isa::scalar) return {multiply_s8_avx2, kS8Rows, 1, false};
#endif
  return {multiply_s8_scalar, kS8Rows, 1, false};
}

}  // namespace tessera::backends::cpu
