// The microkernel of indirect products by tile registers of 16 rows of 64 bytes, as in Intel's AMX ("Intel 64 and IA-32
// Architectures Software Developer's Manual", volume 1, chapter 18): up to 32 rows times panels of 32 columns are four
// tiles of sums. Shared by bfloat16 and int8 products, whose groups both have four bytes. `Unit` provides the
// registers: the machine's, or emulated ones. Self-contained, as indirect_product_s8.h.
#pragma once

#include <cstdint>

#include "backends/cpu/products/tile_rows.h"

namespace tessera::backends::cpu {

// Working memory of the calling thread, aligned to 64 bytes, valid until its next call. Throws std::bad_alloc.
std::uint8_t* tile_workspace(std::int64_t bytes);

namespace {

// The rows of A in a form that tiles can load: in place if rows are evenly spaced, copied otherwise.
template <typename Unit, typename Product>
class TileLeft {
 public:
  std::int64_t runs, steps, tail;  // whole steps per run; bytes left over in the last run
  std::int64_t last_step;          // the largest offset at which the last step begins
  TileRun* run;
  TileRowsAt last[2];  // the bytes left over of each row, padded with zeros

  // `workspace` has room_of(product) bytes.
  TileLeft(const Product& product, std::uint8_t* workspace)
      : product_(product),
        bytes_(product.groups * 4),
        copied_((product.segment_groups == 0 ? product.groups : product.segment_groups) * 4) {
    // The incomplete last step of each segment would take a whole step: lay segments side by side instead, as their
    // weights are.
    const bool joins = product.segments > 1 && bytes_ % kTileBytes != 0;
    const std::int64_t length = joins ? bytes_ * product.segments : bytes_;
    runs = joins ? 1 : product.segments;
    steps = length / kTileBytes;
    tail = length % kTileBytes;
    last_step = product.segment_groups == 0 ? length : copied_ - kTileBytes;
    copies_ = workspace;
    stride_ = copy_stride(product);
    run = reinterpret_cast<TileRun*>(workspace + kProductRows * stride_);
    if (product.spaced != nullptr) {  // here segments are whole steps
      for (std::int64_t s = 0; s < product.segments; ++s) {
        for (int half = 0; half < 2; ++half)
          run[s].at[half] = {
              product.spaced[s].at[half].data + product.skipped * static_cast<std::int64_t>(sizeof(product.left[0][0])),
              product.spaced[s].at[half].stride};
      }
      return;
    }
    for (int half = 0; half < 2 && half * product.half_rows < product.rows; ++half) {
      if (joins) join(half);
      else find(half);
    }
  }

  static std::int64_t room_of(const Product& product) {
    return kProductRows * copy_stride(product) + product.segments * static_cast<std::int64_t>(sizeof(TileRun));
  }

 private:
  // An odd number of cache lines, so that rows use all sets of the cache, with space to read beyond a row.
  static std::int64_t copy_stride(const Product& product) {
    return ((product.groups * 4 * product.segments + 2 * kTileBytes - 1) / kTileBytes | 1) * kTileBytes;
  }

  const std::uint8_t* row(std::int64_t segment, std::int64_t i) const {
    return reinterpret_cast<const std::uint8_t*>(product_.left[segment * product_.tile_rows + i] + product_.skipped);
  }
  std::int64_t rows_of(int half) const {
    const std::int64_t left = product_.rows - half * product_.half_rows;
    return left < product_.half_rows ? left : product_.half_rows;
  }

  void join(int half) {
    const std::int64_t first = half * product_.half_rows, end = first + rows_of(half);
    for (std::int64_t i = first; i < end; ++i) {
      std::uint8_t* to = copies_ + i * stride_;
      if (tail > 0) Unit::clear(to + steps * kTileBytes, kTileBytes);
      for (std::int64_t s = 0; s < product_.segments; ++s, to += bytes_) Unit::copy(row(s, i), to, bytes_);
    }
    run[0].at[half] = {copies_ + first * stride_, stride_};
    last[half] = {copies_ + first * stride_ + steps * kTileBytes, stride_};
  }

  void find(int half) {
    constexpr std::int64_t kCachePeriod = 4096;  // rows this far apart share the sets of the first-level cache
    const std::int64_t first = half * product_.half_rows, count = rows_of(half);
    std::uint8_t* to = copies_ + first * stride_;
    for (std::int64_t s = 0; s < product_.segments; ++s, to += bytes_) {
      const std::uint8_t* begin = row(s, first);
      const std::int64_t distance = count > 1 ? row(s, first + 1) - begin : 0;
      bool even = distance == 0 || distance % kCachePeriod != 0;
      for (std::int64_t i = 2; i < count; ++i) even &= row(s, first + i) - begin == i * distance;
      if (even) {
        run[s].at[half] = {begin, distance};
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) Unit::copy(row(s, first + i), to + i * stride_, copied_);
      run[s].at[half] = {to, stride_};
    }
    if (tail == 0) return;  // otherwise there is a single segment
    const TileRowsAt& at = run[0].at[half];
    to = copies_ + first * stride_ + steps * kTileBytes;
    last[half] = {to, stride_};
    if (at.data == copies_ + first * stride_) return;
    for (std::int64_t i = 0; i < count; ++i)
      Unit::copy(at.data + i * at.stride + steps * kTileBytes, to + i * stride_, tail);
  }

  const Product& product_;
  std::int64_t bytes_, copied_;  // bytes of a segment in the weights, in the data
  std::uint8_t* copies_;
  std::int64_t stride_;
};

// Tile registers 0 to 3 hold sums: rows of the first tile times both halves of a panel, then rows of the second tile; 4
// and 5 hold A, 6 and 7 hold B. With a panel of one half, every other step uses the two spare tiles of sums (`odd`),
// since additions to the same tile must wait for each other.
template <typename Unit, typename Kind, int row_tiles, int column_tiles, bool odd = false>
inline void add_tile_step(const TileRowsAt (&left)[2], std::int64_t offset, const std::uint8_t* right) {
  constexpr std::int64_t width = column_tiles * kTileBytes;
  Unit::template load<6>(right, width);
  Unit::template load<4>(left[0].data + offset, left[0].stride);
  Kind::template add<odd ? 1 : 0, 4, 6>();
  if constexpr (column_tiles > 1) {
    Unit::template load<7>(right + kTileBytes, width);
    Kind::template add<1, 4, 7>();
  }
  if constexpr (row_tiles > 1) {
    Unit::template load<5>(left[1].data + offset, left[1].stride);
    Kind::template add<odd ? 3 : 2, 5, 6>();
    if constexpr (column_tiles > 1) Kind::template add<3, 5, 7>();
  }
}

template <typename Unit, int row_tiles, int column_tiles>
inline void load_sums(const std::uint8_t* from, std::int64_t stride, std::int64_t second_rows) {
  Unit::template load<0>(from, stride);
  if constexpr (column_tiles > 1) Unit::template load<1>(from + kTileBytes, stride);
  if constexpr (row_tiles > 1) {
    Unit::template load<2>(from + second_rows, stride);
    if constexpr (column_tiles > 1) Unit::template load<3>(from + second_rows + kTileBytes, stride);
  }
}

template <typename Unit, typename Kind, int row_tiles, int column_tiles, typename Product>
inline void multiply_panel(const Product& product, const TileLeft<Unit, Product>& left, const std::uint8_t* right,
                           std::int64_t column, std::uint8_t* sums, std::uint8_t* last_right) {
  constexpr std::int64_t row_bytes = column_tiles * kTileBytes, sums_stride = kPanelColumns * 4;
  const std::int64_t second_half = product.half_rows * sums_stride;
  std::uint8_t* partial = product.partial == nullptr
                              ? nullptr
                              : reinterpret_cast<std::uint8_t*>(product.partial + column * product.tile_rows);
  // All rows of sums start with the same values.
  if (product.begins)
    load_sums<Unit, row_tiles, column_tiles>(reinterpret_cast<const std::uint8_t*>(Kind::start(product) + column), 0,
                                             0);
  else load_sums<Unit, row_tiles, column_tiles>(partial, sums_stride, second_half);
  [[maybe_unused]] bool odd = false;
  if constexpr (column_tiles == 1) {
    Unit::template zero<1>();
    if constexpr (row_tiles > 1) Unit::template zero<3>();
  }
  for (std::int64_t run = 0; run < left.runs; ++run) {
    for (std::int64_t step = 0; step < left.steps; ++step, right += kTileGroups * row_bytes) {
      const std::int64_t at = step * kTileBytes;
      const std::int64_t offset = at < left.last_step ? at : left.last_step;
      if constexpr (column_tiles == 1) {
        if (odd) add_tile_step<Unit, Kind, row_tiles, column_tiles, true>(left.run[run].at, offset, right);
        else add_tile_step<Unit, Kind, row_tiles, column_tiles>(left.run[run].at, offset, right);
        odd = !odd;
      } else {
        add_tile_step<Unit, Kind, row_tiles, column_tiles>(left.run[run].at, offset, right);
      }
    }
  }
  if (left.tail > 0) {
    // Weights behind these are not zero, and may be NaN.
    const std::int64_t groups = left.tail / 4;
    for (std::int64_t i = 0; i < groups; ++i) Unit::copy(right + i * row_bytes, last_right + i * row_bytes, row_bytes);
    for (std::int64_t i = groups; i < kTileGroups; ++i) Unit::clear(last_right + i * row_bytes, row_bytes);
    add_tile_step<Unit, Kind, row_tiles, column_tiles>(left.last, 0, last_right);
  }
  std::uint8_t* to = product.ends ? sums : partial;
  Unit::template store<0>(to, sums_stride);
  Unit::template store<1>(to + kTileBytes, sums_stride);
  if constexpr (row_tiles > 1) {
    Unit::template store<2>(to + second_half, sums_stride);
    Unit::template store<3>(to + second_half + kTileBytes, sums_stride);
  }
  if constexpr (column_tiles == 1) {
    for (std::int64_t i = 0; i < product.rows; ++i)
      Kind::add_lanes(to + i * sums_stride, to + i * sums_stride + kTileBytes);
  }
  if (product.ends) Kind::finish(product, sums, column);
}

// Multiplies by tiles. Kind provides add<sums, a, b>(); add_lanes(to, from), which adds a row of sums to another;
// start(product), the initial sums; finish(product, sums, column), which stores sums [row][kPanelColumns].
template <typename Unit, typename Kind, typename Product>
void multiply_by_tiles(const Product& product) {
  constexpr std::int64_t kSumsBytes = kProductRows * kPanelColumns * 4, kLastBytes = kTileGroups * 2 * kTileBytes;
  std::uint8_t* sums = tile_workspace(kSumsBytes + kLastBytes + TileLeft<Unit, Product>::room_of(product));
  std::uint8_t* last_right = sums + kSumsBytes;
  Unit::configure(product.rows, product.half_rows);
  const TileLeft<Unit, Product> left(product, last_right + kLastBytes);
  const auto* right = reinterpret_cast<const std::uint8_t*>(product.right);
  for (std::int64_t column = 0; column < product.columns; column += kPanelColumns) {
    const bool wide = product.columns - column > kPanelColumns / 2, tall = product.rows > product.half_rows;
    const std::int64_t row_bytes = wide ? 2 * kTileBytes : kTileBytes;
    const std::uint8_t* part = right + product.first_group * row_bytes;
    if (tall && wide) multiply_panel<Unit, Kind, 2, 2>(product, left, part, column, sums, last_right);
    else if (tall) multiply_panel<Unit, Kind, 2, 1>(product, left, part, column, sums, last_right);
    else if (wide) multiply_panel<Unit, Kind, 1, 2>(product, left, part, column, sums, last_right);
    else multiply_panel<Unit, Kind, 1, 1>(product, left, part, column, sums, last_right);
    right += product.panel_groups * row_bytes;
  }
}

}  // namespace
}  // namespace tessera::backends::cpu
