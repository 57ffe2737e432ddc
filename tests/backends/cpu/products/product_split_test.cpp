#include "backends/cpu/products/product_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "backends/cpu/machine/large_operands.h"

namespace tessera::backends::cpu::product_split_test {
namespace {

ProductSplit chosen(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t groups,
                    bool rows_of_small_weights = false) {
  ProductSplit split{.rows = rows, .columns = columns, .groups = groups, .tile_rows = 12, .tile_columns = 32};
  split.segments = 3;
  split.segment_groups = depth;
  split.rows_of_small_weights = rows_of_small_weights;
  const std::int64_t row_bytes = split.segments * depth * 4;
  split.choose(2.0 * static_cast<double>(rows * columns * row_bytes), 1e6, split.tile_columns * row_bytes,
               rows * row_bytes, row_bytes);
  return split;
}

// Every element of the product meets the whole depth, in order, in one chunk.
void expect_each_element_once(const ProductSplit& split) {
  std::vector<std::int64_t> segments_done(static_cast<std::size_t>(split.groups * split.rows * split.columns));
  for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
    split.for_each_tile(chunk, [&](const ProductTile& tile) {
      ASSERT_LE(tile.rows, split.tile_rows);
      for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
        for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
          std::int64_t& done =
              segments_done.at(static_cast<std::size_t>((tile.group * split.rows + row) * split.columns + column));
          ASSERT_EQ(done, tile.depth.segment);
          ASSERT_EQ(tile.depth.begins, done == 0);
          done += tile.depth.segments;
          ASSERT_EQ(tile.depth.ends, done == split.segments);
        }
      }
    });
  }
  for (const std::int64_t done : segments_done) ASSERT_EQ(done, split.segments);
}

TEST(ProductSplit, CoversEachElementOnce) {
  for (const std::int64_t rows : {1, 11, 49, 197, 785}) {
    for (const std::int64_t columns : {1, 33, 320, 1000}) {
      for (const bool small_weights : {false, true})
        expect_each_element_once(chosen(rows, columns, 40, rows < 100 ? 2 : 1, small_weights));
    }
  }
}

TEST(ProductSplit, TilesThatDoNotCrossLines) {
  for (const std::int64_t columns : {33, 1000}) {
    for (const std::int64_t line_tiles : {2, 3}) {
      ProductSplit split{.rows = 20 * 19,
                         .columns = columns,
                         .tile_rows = 12,
                         .tile_columns = 32,
                         .line_rows = 19,
                         .line_tiles = line_tiles};
      split.choose(1e8, 1e6, 32 * 400, 380 * 400);
      EXPECT_GT(split.chunks(), 1);
      split.segments = 1;
      expect_each_element_once(split);
      for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
        split.for_each_tile(
            chunk, [&](const ProductTile& tile) { EXPECT_EQ(tile.row / 19, (tile.row + tile.rows - 1) / 19); });
      }
    }
  }
}

TEST(ProductSplit, CoversDeepProductsInParts) {
  const ScopedLargeOperands small(0);
  const ProductSplit split = chosen(500, 200, 400, 1);
  EXPECT_EQ(split.parts, 3);
  expect_each_element_once(split);
}

// Chunks that follow each other in a thread's share keep their rows where data is more than weights.
TEST(ProductSplit, RowsDoNotGoBackWhereTheyAreSplitFirst) {
  const ProductSplit split = chosen(100, 90, 400, 1);
  ASSERT_TRUE(split.rows_first);
  EXPECT_GT(split.row_chunks, 1);
  EXPECT_GT(split.panel_chunks, 1);
  std::int64_t last = 0;
  for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
    std::int64_t first = split.rows;
    split.for_each_tile(chunk, [&](const ProductTile& tile) { first = std::min(first, tile.row); });
    EXPECT_GE(first, last);
    last = first;
  }
}

// Rows stay with their threads where there are many tiles of them and weights stay in the second-level cache.
TEST(ProductSplit, RowsAreSplitUnderWeightsThatStayInTheCache) {
  EXPECT_TRUE(chosen(785, 900, 8, 1).rows_first);
  EXPECT_TRUE(chosen(785, 900, 8, 1, true).rows_first);
  EXPECT_FALSE(chosen(100, 900, 8, 1).rows_first);
  EXPECT_FALSE(chosen(785, 900, 300, 1).rows_first);
}

// Two or four threads share the chunks of small products evenly.
TEST(ProductSplit, FewChunksAreSharesOfFour) {
  for (const std::int64_t rows : {200, 300, 500, 700}) {
    const ProductSplit split = chosen(rows, 32, 40, 1);
    ASSERT_GT(split.chunks(), 1);
    EXPECT_EQ(split.chunks() % 4, 0) << rows << " rows, " << split.chunks() << " chunks";
  }
}

// The shares of a block's tiles are all of the weights behind it.
TEST(ProductSplit, TilesFetchAllThatIsAhead) {
  const ProductSplit split = chosen(97, 1000, 400, 1);
  constexpr std::int64_t kColumnBytes = 4800;
  std::int64_t fetched = 0, end = 0;
  split.for_each_tile(0, [&](const ProductTile& tile) {
    const WeightRange ahead = split.ahead(tile, kColumnBytes);
    if (tile.column == 0 && tile.row == 0) end = (tile.column + tile.columns) * kColumnBytes;
    if (tile.column != 0) return;
    EXPECT_EQ(ahead.first, end);
    end = ahead.first + ahead.bytes;
    fetched += ahead.bytes;
  });
  EXPECT_GT(fetched, 0);
}

}  // namespace
}  // namespace tessera::backends::cpu::product_split_test
