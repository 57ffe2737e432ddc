// Tile registers emulated in memory, for tests on machines without them.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backends/cpu/products/tile_product.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "base/numbers/half.h"

namespace tessera::backends::cpu {

std::uint8_t* tile_workspace(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  struct alignas(kAlignment) Line {
    std::byte bytes[kAlignment];
  };
  thread_local std::vector<Line> room;
  const std::size_t lines = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment;
  if (room.size() < lines) room.resize(lines);
  return reinterpret_cast<std::uint8_t*>(room.data());
}

namespace {

struct Tile {
  std::int64_t rows = 0;
  alignas(64) std::array<std::array<std::uint8_t, kTileBytes>, kTileRows> bytes{};

  template <typename T>
  T at(std::int64_t row, std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes[static_cast<std::size_t>(row)].data() + i * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
  }
  template <typename T>
  void set(std::int64_t row, std::int64_t i, T value) {
    std::memcpy(bytes[static_cast<std::size_t>(row)].data() + i * static_cast<std::int64_t>(sizeof(T)), &value,
                sizeof(T));
  }
};

thread_local std::array<Tile, 8> tiles;

struct Emulation {
  static void configure(std::int64_t rows, std::int64_t half_rows) {
    const std::int64_t first = std::min(rows, half_rows), second = rows - first;
    const std::array<std::int64_t, 8> of_tile{first, first, second, second, first, second, kTileRows, kTileRows};
    for (std::size_t tile = 0; tile < tiles.size(); ++tile) tiles[tile].rows = of_tile[tile];
  }
  template <int tile>
  static void load(const std::uint8_t* from, std::int64_t stride) {
    for (std::int64_t row = 0; row < tiles[tile].rows; ++row)
      std::memcpy(tiles[tile].bytes[static_cast<std::size_t>(row)].data(), from + row * stride, kTileBytes);
  }
  template <int tile>
  static void store(std::uint8_t* to, std::int64_t stride) {
    for (std::int64_t row = 0; row < tiles[tile].rows; ++row)
      std::memcpy(to + row * stride, tiles[tile].bytes[static_cast<std::size_t>(row)].data(), kTileBytes);
  }
  template <int tile>
  static void zero() {
    tiles[tile].bytes = {};
  }
  static void copy(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
    std::copy_n(from, bytes, to);
    if (bytes % kTileBytes != 0) std::fill_n(to + bytes, kTileBytes - bytes % kTileBytes, std::uint8_t{0});
  }
  static void clear(std::uint8_t* to, std::int64_t bytes) { std::fill_n(to, bytes, std::uint8_t{0}); }
};

template <typename T>
void add_to_each(std::uint8_t* to, const std::uint8_t* from) {
  for (std::int64_t i = 0; i < kTileBytes; i += 4) {
    T a, b;
    std::memcpy(&a, to + i, 4);
    std::memcpy(&b, from + i, 4);
    a += b;
    std::memcpy(to + i, &a, 4);
  }
}

// TDPBF16PS: sums the even and the odd numbers of a row separately from zero, then adds both to the sum.
struct Bf16Sums {
  template <int sum, int a, int b>
  static void add() {
    for (std::int64_t row = 0; row < tiles[a].rows; ++row) {
      for (std::int64_t column = 0; column < kTileGroups; ++column) {
        float parts[2] = {0, 0};
        for (std::int64_t k = 0; k < kTileGroups; ++k) {
          for (int i = 0; i < 2; ++i) {
            const auto left = base::to_float(bf16_t{tiles[a].at<std::uint16_t>(row, 2 * k + i)}),
                       right = base::to_float(bf16_t{tiles[b].at<std::uint16_t>(k, 2 * column + i)});
            parts[i] += left * right;
          }
        }
        tiles[sum].set(row, column, tiles[sum].at<float>(row, column) + (parts[0] + parts[1]));
      }
    }
  }
  static void add_lanes(std::uint8_t* to, const std::uint8_t* from) { add_to_each<float>(to, from); }
  static const float* start(const IndirectProductBf16& product) { return product.bias; }
  static void finish(const IndirectProductBf16& product, const std::uint8_t* sums, std::int64_t column) {
    const std::int64_t columns = std::min(kPanelColumns, product.columns - column);
    for (std::int64_t row = 0; row < product.rows; ++row) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t at = row * product.ldc + column + j;
        float value;
        std::memcpy(&value, sums + (row * kPanelColumns + j) * 4, 4);
        if (product.addend != nullptr)
          value += product.rounded_addend
                       ? base::to_float(bf16_t{static_cast<const std::uint16_t*>(product.addend)[at]})
                       : static_cast<const float*>(product.addend)[at];
        value = value < product.low ? product.low : value > product.high ? product.high : value;  // NaN stays
        if (product.rounded_c) static_cast<std::uint16_t*>(product.c)[at] = base::to_bf16(value).bits;
        else static_cast<float*>(product.c)[at] = value;
      }
    }
  }
};

struct S8Sums {
  template <int sum, int a, int b>
  static void add() {
    for (std::int64_t row = 0; row < tiles[a].rows; ++row) {
      for (std::int64_t column = 0; column < kTileGroups; ++column) {
        auto total = tiles[sum].at<std::uint32_t>(row, column);  // unsigned, so that arithmetic wraps
        for (std::int64_t k = 0; k < kTileGroups; ++k) {
          for (std::int64_t i = 0; i < 4; ++i)
            total += static_cast<std::uint32_t>(tiles[a].at<std::uint8_t>(row, 4 * k + i) *
                                                tiles[b].at<std::int8_t>(k, 4 * column + i));
        }
        tiles[sum].set(row, column, total);
      }
    }
  }
  static void add_lanes(std::uint8_t* to, const std::uint8_t* from) { add_to_each<std::uint32_t>(to, from); }
  static const std::int32_t* start(const IndirectProductS8& product) { return product.start; }
  static void finish(const IndirectProductS8& product, const std::uint8_t* sums, std::int64_t column) {
    store_s8_sums(product, reinterpret_cast<const std::int32_t*>(sums), column,
                  std::min(kPanelColumns, product.columns - column));
  }
};

}  // namespace

void multiply_bf16_emulated(const IndirectProductBf16& product) {
  multiply_by_tiles<Emulation, Bf16Sums>(product);
}
void multiply_s8_emulated(const IndirectProductS8& product) {
  multiply_by_tiles<Emulation, S8Sums>(product);
}

}  // namespace tessera::backends::cpu
