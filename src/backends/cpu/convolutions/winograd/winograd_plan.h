// The cut of a Winograd convolution (winograd.cpp) into blocks of tiles, and the memory layout of a block.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/products/windows/windows.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

// The size of blocks.
struct WinogradCut {
  std::int64_t tiles = 1, slices = 1;                // of a block; slices of results
  std::int64_t before_stride = 0, after_stride = 0;  // between parts of the transforms before and after the product

  std::int64_t floats_a_part() const { return base::checked_add(before_stride, after_stride); }
};

// Tiles, numbered through images, rows and columns, in a run of slices of results, and the slices of input under these.
struct WinogradBlock {
  std::int64_t before_stride, after_stride;
  std::int64_t first, tiles;
  std::int64_t result_slice, result_slices;
  std::int64_t slice, slices;
  std::int64_t tile_slices;  // distance between tiles in `before`

  std::int64_t rows() const { return tiles * result_slices; }
};

class WinogradPlan {
 public:
  struct Place {
    std::int64_t image, row, column;  // of the tile's first output
  };

  // The plan of a layer with weights [outputs, inputs, ...]. The product takes `product_rows` rows at a time, and pads
  // its columns to vectors of `lanes` lanes.
  WinogradPlan(const ChannelsLastGeometry& geometry, std::int64_t inputs, std::int64_t outputs,
               std::int64_t product_rows, std::int64_t lanes);

  const ChannelsLastGeometry& geometry() const { return geometry_; }
  std::int64_t inputs() const { return inputs_; }
  std::int64_t outputs() const { return outputs_; }
  // The terms of a sum between the transforms: taps of the first axis times inputs.
  std::int64_t terms() const { return terms_; }
  bool is_dilated() const { return geometry_.axes[1].dilation > 1 || geometry_.axes[2].dilation > 1; }

  // Whether threads work on separate blocks that fit a core's cache, instead of sharing each block.
  bool has_own_blocks() const { return own_blocks_; }
  const WinogradCut& cut() const { return cut_; }
  // Whether each of `threads` threads should take whole blocks instead of sharing them, which moves transforms between
  // cores: if there are enough tiles, and the weights, which each thread reads entirely, stay in its third-level cache.
  bool gives_each_a_block(std::int64_t threads) const;
  WinogradCut cut_for(std::int64_t threads) const;
  std::int64_t blocks(const WinogradCut& cut) const;
  WinogradBlock block_at(const WinogradCut& cut, std::int64_t i) const;

  // Floats of one part of the transforms of all weights.
  std::int64_t part_floats() const;
  Place place(std::int64_t tile) const;
  // Whether the result reads the i-th slice under a block.
  bool is_read(std::int64_t i) const;
  // The position of slice `under` in a block's `before`: slices that the taps of a sum read follow each other there.
  std::int64_t position(const WinogradBlock& block, std::int64_t under) const {
    const std::int64_t dilation = geometry_.axes[0].dilation;
    return dilation == 1 ? under : under % dilation * (block.tile_slices / dilation) + under / dilation;
  }

 private:
  std::int64_t tiles() const { return geometry_.batch * tile_rows_ * tile_columns_; }
  std::int64_t slices_under(std::int64_t result_slices) const;
  std::int64_t before_slices(std::int64_t slices) const { return base::round_up(slices, geometry_.axes[0].dilation); }
  std::int64_t tile_floats(std::int64_t slices) const;
  void choose_block();
  void even_out(WinogradCut& cut) const;

  ChannelsLastGeometry geometry_;
  std::int64_t inputs_, outputs_, terms_, product_rows_, lanes_;
  std::vector<std::int64_t> row_starts_, column_starts_;
  std::int64_t tile_rows_, tile_columns_;
  WinogradCut cut_;
  bool own_blocks_ = false;
};

}  // namespace tessera::backends::cpu
