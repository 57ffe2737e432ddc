// The split of a product with packed weights: into chunks for threads; chunks into blocks of rows, of columns and, if
// rows are long, of the depth; blocks into tiles for the microkernel.
//
// In a deep product, the sums of a block of rows and columns are kept in a buffer of the thread while the parts of the
// depth are added one after the other, so that the weights of a part stay in the second-level cache and a tile's rows
// of it in the first (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3),
// 2008). Each sum still runs over the depth in order: results are equal bit for bit with one part or several, except
// where bfloat16 tile registers hold a panel's last 16 columns or fewer, which have two accumulators within a part.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {

// The least number of columns for which it is worth copying rows only to spread them (spread_row).
inline constexpr std::int64_t kManyColumns = 256;

// The number of elements from row to row that data should have for products: rows that are multiples of 4 KB apart
// share sets of the first-level cache, which then cannot hold the rows of a tile, so one cache line is left between
// them.
inline std::int64_t spread_row(std::int64_t elements, std::int64_t element_bytes) {
  constexpr std::int64_t kCachePeriod = 4096, kCacheLine = 64;
  return elements == 0 || elements * element_bytes % kCachePeriod != 0 ? elements
                                                                       : elements + kCacheLine / element_bytes;
}

// The part of a row's depth that a tile is computed for, in groups of neighbours (four bytes, or two bfloat16 numbers).
struct DepthPart {
  std::int64_t segment = 0, segments = 0;  // whole segments, or the single segment of a row
  std::int64_t group = 0, groups = 0;      // the groups of these that are multiplied
  bool begins = true, ends = true;         // whether this is the first part, the last part
};

struct ProductTile {
  std::int64_t group, row, rows, column, columns;
  DepthPart depth;
  std::int64_t partial;  // offset of its sums between parts of the depth, from the first in the buffer
};

// A range of a group's packed weights, in bytes.
struct WeightRange {
  std::int64_t first = 0, bytes = 0;
};

// A product of `rows` × `columns` for each of `groups` groups; a row consists of `segments` segments of
// `segment_groups` groups each.
struct ProductSplit {
  std::int64_t rows = 0, columns = 0, groups = 1;
  std::int64_t tile_rows = 1, tile_columns = 1;
  std::int64_t segments = 1, segment_groups = 1;
  std::int64_t depth_step = 1;  // in groups: parts of the depth begin at multiples of it
  bool tile_registers = false;  // tiles have tile_rows rows but for a short last one, instead of about equal heights
  // If outputs form lines of `line_rows` rows and tiles should not cross from one line to the next: the number of tiles
  // per line; 0: tiles may cross.
  std::int64_t line_rows = 0, line_tiles = 0;
  bool rows_of_small_weights = false;  // whether to split rows if weights stay in the second-level cache and
                                       // there are several segments per row, which are slow to find

  // Chooses the split. `operations`: of the whole product; `panel_bytes`: of the weights of tile_columns columns;
  // `data_bytes`: read per group; `row_bytes`: of a row, if the microkernel can take parts of the depth. Rows are split
  // if the data is larger than the weights, otherwise columns: each chunk reads again the operand that is not split.
  // Both are split if that reads too much.
  void choose(double operations, double operations_a_chunk, std::int64_t panel_bytes, std::int64_t data_bytes,
              std::int64_t row_bytes = 0);

  std::int64_t chunks() const { return groups * row_chunks * panel_chunks; }

  // Calls tile(const ProductTile&) for each tile of a chunk and each part of the depth; a more important run may take
  // the core between two calls.
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
        // A short last tile would read all of the weights for few rows.
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

  // The range of the next weights, behind the tile's, that its microkernel should prefetch, so that the first tile to
  // use them need not wait for the third-level cache or memory: of the next tile.columns columns, the share that the
  // tile's rows are of all rows. `column_bytes`: bytes of weights per column.
  WeightRange ahead(const ProductTile& tile, std::int64_t column_bytes) const {
    constexpr std::int64_t kLeastTiles = 4;  // with fewer tiles, shares exceed what microkernels can prefetch
    const std::int64_t next = tile.column + tile.columns;
    if (parts > 1 || rows < kLeastTiles * tile_rows || next >= columns) return {};
    const std::int64_t bytes = std::min(tile.columns, columns - next) * column_bytes, begin = bytes * tile.row / rows;
    return {next * column_bytes + begin, bytes * (tile.row + tile.rows) / rows - begin};
  }

  // The calling thread's buffer for the sums of a block between two parts of the depth; null if there is one part.
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
  std::int64_t parts = 1, block_tiles = 0;  // block_tiles 0: all
  bool rows_first = false;  // whether chunks of the same rows follow each other, so that a thread which takes its share
                            // in order reads and writes few rows

 private:
  std::int64_t block_of_tiles() const { return tile_registers ? 12 : 32; }

  std::int64_t tile_count() const {
    return line_tiles > 0 ? rows / line_rows * line_tiles : base::ceil_divide(rows, tile_rows);
  }
  // The first row of a tile at which a chunk may begin; all rows if `tile` is the end.
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
