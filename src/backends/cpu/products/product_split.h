// How products of packed weights are split: into chunks for threads, these into blocks of rows, of columns and, where
// rows are long, of the depth, and blocks into tiles for the inner loop.
//
// Of a deep product, the sums of a block of rows and columns wait in a buffer of the thread while one part of the depth
// after the other is added, so that the weights of a part stay in the second-level cache and a tile's rows of it in the
// first (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008). Each sum
// still runs over the depth in order: results are the same bits in one part or in several, except where bfloat16 tile
// registers hold a panel's last 16 columns or fewer, which have two accumulators within a part.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {

// Rows that are worth copying for spread_row alone are multiplied with so many columns.
inline constexpr std::int64_t kManyColumns = 256;

// Elements from row to row that data should have where products read it: rows that lie multiples of 4 KB apart share
// sets of the first-level cache, which does not hold a tile's rows then, so a cache line is left between them.
inline std::int64_t spread_row(std::int64_t elements, std::int64_t element_bytes) {
  constexpr std::int64_t kCachePeriod = 4096, kCacheLine = 64;
  return elements == 0 || elements * element_bytes % kCachePeriod != 0 ? elements
                                                                       : elements + kCacheLine / element_bytes;
}

// Groups of neighbours (of four bytes, two bfloat16 numbers) of a row that a tile is computed for.
struct DepthPart {
  std::int64_t segment = 0, segments = 0;  // whole ones, or of the only one
  std::int64_t group = 0, groups = 0;      // these
  bool begins = true, ends = true;         // whether no part comes before it, behind it
};

struct ProductTile {
  std::int64_t group, row, rows, column, columns;
  DepthPart depth;
  std::int64_t partial;  // place of its sums between parts of the depth: of the first in the buffer
};

// Bytes of a group's packed weights.
struct WeightRange {
  std::int64_t first = 0, bytes = 0;
};

// A product of `rows` × `columns` a group; of a row, `segments` of `segment_groups` groups each.
struct ProductSplit {
  std::int64_t rows = 0, columns = 0, groups = 1;
  std::int64_t tile_rows = 1, tile_columns = 1;
  std::int64_t segments = 1, segment_groups = 1;
  std::int64_t depth_step = 1;  // groups: parts of the depth begin at multiples of it
  bool tile_registers =
      false;  // tiles are tall, and rather whole with a last one of few rows than of about equal height
  // Where outputs lie in lines of `line_rows` and tiles should not cross from one to the next: into how many tiles each
  // line is cut; 0: tiles cross.
  std::int64_t line_rows = 0, line_tiles = 0;
  bool rows_of_small_weights = false;  // split rows where weights stay in the second-level cache and finding a row's
                                       // segments takes long beside its products

  // `operations` of the whole, `panel_bytes` of the weights of tile_columns, `data_bytes` read by a group, and bytes of
  // a row, where the inner loop takes parts of the depth. Rows are split where data is more than weights, columns
  // otherwise: what is not split is read again by each chunk. Both are where that is much.
  void choose(double operations, double operations_a_chunk, std::int64_t panel_bytes, std::int64_t data_bytes,
              std::int64_t row_bytes = 0);

  std::int64_t chunks() const { return groups * row_chunks * panel_chunks; }

  // tile(const ProductTile&) for each tile of a chunk and each part of the depth; a more important run may have the
  // core between two of them.
  template <typename Tile>
  void for_each_tile(std::int64_t chunk, Tile&& tile) const {
    const std::int64_t of_group = chunk % (row_chunks * panel_chunks), group = chunk / (row_chunks * panel_chunks);
    const std::int64_t row_chunk = rows_first ? of_group / panel_chunks : of_group % row_chunks,
                       panel_chunk = rows_first ? of_group % panel_chunks : of_group / row_chunks;
    const std::int64_t tiles = tile_count(), first_of_chunk = tiles * row_chunk / row_chunks,
                       end_of_chunk = tiles * (row_chunk + 1) / row_chunks;
    const std::int64_t row_begin = first_row(first_of_chunk), row_end = first_row(end_of_chunk);
    const std::int64_t panel_begin = panels() * panel_chunk / panel_chunks,
                       panel_end = panels() * (panel_chunk + 1) / panel_chunks;
    const std::int64_t chunk_tiles =
        line_tiles > 0 ? end_of_chunk - first_of_chunk : base::ceil_divide(row_end - row_begin, tile_rows);
    // Blocks of about equal size.
    const std::int64_t row_blocks = block_tiles == 0 ? 1 : base::ceil_divide(chunk_tiles, block_tiles),
                       panel_blocks = base::ceil_divide(panel_end - panel_begin, block_panels);
    for (std::int64_t i = 0; i < panel_blocks * row_blocks * parts; ++i) {
      const std::int64_t part = i % parts, row_block = i / parts % row_blocks, panel_block = i / parts / row_blocks;
      const std::int64_t first_panel = panel_begin + (panel_end - panel_begin) * panel_block / panel_blocks,
                         panels_end = panel_begin + (panel_end - panel_begin) * (panel_block + 1) / panel_blocks;
      const std::int64_t first = first_panel * tile_columns, last = std::min(columns, panels_end * tile_columns);
      const std::int64_t first_tile = chunk_tiles * row_block / row_blocks,
                         tiles_end = chunk_tiles * (row_block + 1) / row_blocks;
      for (std::int64_t j = first_tile; j < tiles_end; ++j) {
        // A last tile of few rows would read all weights for little.
        const auto begin_of = [&](std::int64_t i) {
          return line_tiles > 0   ? first_row(first_of_chunk + i)
                 : tile_registers ? std::min(row_end, row_begin + i * tile_rows)
                                  : row_begin + (row_end - row_begin) * i / chunk_tiles;
        };
        const std::int64_t row = begin_of(j), next = begin_of(j + 1);
        base::yield_point();
        tile(ProductTile{group, row, next - row, first, last - first, part_of_depth(part),
                         (j - first_tile) * (panels_end - first_panel) * tile_rows * tile_columns});
      }
    }
  }

  // What of the weights behind a tile's its inner loop should bring nearer, so that the first tile that meets them need
  // not wait for the third level or the memory: of as many panels, the share that its rows are of all rows.
  // `column_bytes` of weights a column.
  WeightRange ahead(const ProductTile& tile, std::int64_t column_bytes) const {
    constexpr std::int64_t kLeastTiles = 4;  // of fewer the shares are more than inner loops can ask for
    const std::int64_t next = tile.column + tile.columns;
    if (parts > 1 || rows < kLeastTiles * tile_rows || next >= columns) return {};
    const std::int64_t bytes = std::min(tile.columns, columns - next) * column_bytes, begin = bytes * tile.row / rows;
    return {next * column_bytes + begin, bytes * (tile.row + tile.rows) / rows - begin};
  }

  // The calling thread's room for the sums of a block between two parts of the depth; null where there is one part.
  template <typename T>
  T* partial_sums() const {
    if (parts == 1) return nullptr;
    thread_local hwy::AlignedFreeUniquePtr<T[]> sums;
    thread_local std::int64_t room = 0;
    const std::int64_t wanted = block_tiles * std::min(block_panels, panels()) * tile_rows * tile_columns;
    if (wanted > room) {
      room = 0;
      sums = hwy::AllocateAligned<T>(static_cast<std::size_t>(wanted));
      if (sums == nullptr) throw std::bad_alloc();
      room = wanted;
    }
    return sums.get();
  }

  // Set by choose().
  std::int64_t row_chunks = 1, panel_chunks = 1, block_panels = 1, grain = 1;
  std::int64_t parts = 1, block_tiles = 0;  // 0: all
  bool rows_first = false;  // the chunks of some rows follow each other: a thread that takes its share of them in order
                            // reads and writes few rows

 private:
  std::int64_t block_of_tiles() const { return tile_registers ? 12 : 32; }

  std::int64_t tile_count() const {
    return line_tiles > 0 ? rows / line_rows * line_tiles : base::ceil_divide(rows, tile_rows);
  }
  // Of a tile where chunks may begin; all rows for the one behind the last.
  std::int64_t first_row(std::int64_t tile) const {
    if (line_tiles == 0) return std::min(rows, tile * tile_rows);
    return tile / line_tiles * line_rows + line_rows * (tile % line_tiles) / line_tiles;
  }

  std::int64_t panels() const { return std::max<std::int64_t>(1, base::ceil_divide(columns, tile_columns)); }

  void choose_blocks(std::int64_t tiles, std::int64_t wanted);
  void choose_chunks(std::int64_t tiles, std::int64_t wanted, bool columns_first);
  std::int64_t most_parts(std::int64_t row_bytes, std::int64_t part_bytes) const;

  DepthPart part_of_depth(std::int64_t part) const {
    DepthPart result{0, segments, 0, segment_groups, part == 0, part + 1 == parts};
    std::int64_t& first = segments > 1 ? result.segment : result.group;
    std::int64_t& count = segments > 1 ? result.segments : result.groups;
    const std::int64_t all = count;
    const std::int64_t step = segments > 1 ? 1 : depth_step;
    const auto begin_of = [&](std::int64_t i) { return i == parts ? all : all * i / parts / step * step; };
    first = begin_of(part);
    count = begin_of(part + 1) - first;
    return result;
  }
};

}  // namespace tessera::backends::cpu
