// The chunks do not depend on the number of threads, since the split of a chunk's depth decides where its partial sums
// are stored. Blocked products in float32 (GemmF32) sum in one order whatever the split, and are split by the threads
// of a run.
#include "backends/cpu/products/product_split.h"

#include <cmath>

#include "backends/cpu/machine/large_operands.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kPartBytes = 2048;  // of a row of data: the rows of a tile stay in the first-level cache

// The number of pieces that the work should be cut into, at least 1.
double wanted_pieces(double operations, double operations_a_chunk, double bytes) {
  // With few rows, computing takes less time than reading the weights.
  constexpr double kChunkBytes = 128 * 1024;
  // A small number of pieces is rounded so that two or four threads can share them evenly.
  constexpr double kShares = 4;
  const double pieces = std::max(operations / operations_a_chunk, bytes / kChunkBytes);
  return pieces > 1 ? std::ceil(pieces / kShares) * kShares : pieces;
}

}  // namespace

void ProductSplit::choose(double operations, double operations_a_chunk, std::int64_t panel_bytes,
                          std::int64_t data_bytes, std::int64_t row_bytes) {
  // Bytes of weights that stay in the second-level cache. Processors with tile registers have two megabytes of it, and
  // memory beyond is slow beside them.
  const std::int64_t block_bytes = tile_registers ? 1024 * 1024 : 384 * 1024;
  const std::int64_t weight_bytes = panel_bytes * panels(), tiles = std::max<std::int64_t>(1, tile_count());
  const double pieces = wanted_pieces(operations, operations_a_chunk, static_cast<double>(weight_bytes + data_bytes));
  // Deep: neither data nor weights stay in a core's cache until they are read again.
  const bool deep = row_bytes > kPartBytes && tiles >= block_of_tiles() &&
                    std::min(weight_bytes, data_bytes) >= large_operand_bytes();
  // Weights that stay in the second-level cache may be read by each chunk; that lets each tile of rows find its
  // segments once for all columns.
  const bool small_weights =
      rows_of_small_weights && segments > 1 && weight_bytes <= block_bytes && tiles >= 2 * block_of_tiles();
  // If there are enough rows for all threads and the weights stay in each second-level cache, rows are split, so that
  // they stay with the thread that computed them in the previous layer: transfers between cores may be slow.
  constexpr std::int64_t kManyTiles = 16;
  const bool keeps_rows = !tile_registers && tiles >= kManyTiles && weight_bytes <= block_bytes;
  const bool columns_first = !small_weights && !keeps_rows && weight_bytes > data_bytes;
  // Chunks of all rows and few columns would read all of the data for little work.
  constexpr std::int64_t kManyRowsBytes = 512 * 1024;
  const bool many_rows = columns_first && tiles >= 2 * block_of_tiles() && data_bytes >= kManyRowsBytes;
  constexpr double kMostChunks = 64, kMostLargeChunks = 32;
  const auto wanted =
      static_cast<std::int64_t>(std::clamp(pieces, 1.0, deep || many_rows ? kMostLargeChunks : kMostChunks));
  if (deep) {
    parts = most_parts(row_bytes, kPartBytes);
    block_tiles = block_of_tiles();
  }
  if (deep || many_rows) choose_blocks(tiles, wanted);
  else choose_chunks(tiles, wanted, columns_first);
  // Each block reads the rows again, so weights rather come from the third-level cache.
  const std::int64_t least_panels = tile_registers ? 2 : 8;
  block_panels = std::max(least_panels, block_bytes / std::max<std::int64_t>(1, panel_bytes / parts));
  grain =
      static_cast<std::int64_t>(std::clamp(static_cast<double>(row_chunks * panel_chunks) / (2 * pieces), 1.0, 256.0));
}

// Cuts into chunks of whole blocks of rows and some panels.
void ProductSplit::choose_blocks(std::int64_t tiles, std::int64_t wanted) {
  constexpr std::int64_t kChunkPanels = 4;
  row_chunks = std::min(tiles / block_of_tiles(), wanted);
  panel_chunks = std::clamp<std::int64_t>(panels() / kChunkPanels, 1, base::ceil_divide(wanted, row_chunks));
  row_chunks = std::min(tiles, base::ceil_divide(wanted, panel_chunks));
}

// Cuts into chunks of some rows and all panels, or of some panels and all rows; of some of both if one cut alone gives
// too few chunks.
void ProductSplit::choose_chunks(std::int64_t tiles, std::int64_t wanted, bool columns_first) {
  if (columns_first) panel_chunks = std::min(panels(), wanted);
  row_chunks = std::min(tiles, base::ceil_divide(wanted, panel_chunks));
  if (!columns_first) panel_chunks = std::min(panels(), base::ceil_divide(wanted, row_chunks));
  rows_first = !columns_first;
}

// The most parts that a row of `row_bytes` may be cut into. Instructions that add several groups at once give the same
// sums as long as no part cuts through these groups.
std::int64_t ProductSplit::most_parts(std::int64_t row_bytes, std::int64_t part_bytes) const {
  if (segments > 1)
    return segment_groups % depth_step != 0
               ? 1
               : std::clamp<std::int64_t>(base::ceil_divide(row_bytes, part_bytes), 1, segments);
  return std::clamp<std::int64_t>(base::ceil_divide(row_bytes, part_bytes), 1,
                                  std::max<std::int64_t>(1, segment_groups / depth_step));
}

}  // namespace tessera::backends::cpu
