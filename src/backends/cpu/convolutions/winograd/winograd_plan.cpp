#include "backends/cpu/convolutions/winograd/winograd_plan.h"

#include <algorithm>

#include "backends/cpu/convolutions/winograd/winograd_transforms.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// Floats of both transforms of the tiles in work at a time: by one thread, if they fit its second-level cache and
// weights are read for enough tiles, otherwise by all threads together.
constexpr std::int64_t kOwnFloats = 128 * 1024, kBlockFloats = 512 * 1024, kMostBlockFloats = 3072 * 1024;
constexpr std::int64_t kFewestOwnTiles = 16, kFewestOwnBlocks = 8, kOwnWeightBytes = 8 << 20;
constexpr std::int64_t kMostSlices = 16;  // of a block; slices at the border of two blocks are transformed twice

// The first outputs of the tiles along an axis, phase by phase.
std::vector<std::int64_t> tile_starts(const ops::WindowAxis& axis) {
  std::vector<std::int64_t> starts;
  for (std::int64_t phase = 0; phase < std::min(axis.dilation, axis.output); ++phase) {
    for (std::int64_t start = phase; start < axis.output; start += kWinogradTile * axis.dilation)
      starts.push_back(start);
  }
  return starts;
}

// The distance between parts of a block: an odd number of cache lines, so that the parts of a tile fall into different
// sets.
std::int64_t part_stride(std::int64_t floats) {
  return (ceil_divide(floats, CacheLine::kFloats) | 1) * CacheLine::kFloats;
}

}  // namespace

WinogradPlan::WinogradPlan(const ChannelsLastGeometry& geometry, std::int64_t inputs, std::int64_t outputs,
                           std::int64_t product_rows, std::int64_t lanes)
    : geometry_(geometry),
      inputs_(inputs),
      outputs_(outputs),
      terms_(base::checked_multiply(geometry.axes[0].kernel, inputs)),
      product_rows_(product_rows),
      lanes_(lanes),
      row_starts_(tile_starts(geometry.axes[1])),
      column_starts_(tile_starts(geometry.axes[2])),
      tile_rows_(static_cast<std::int64_t>(row_starts_.size())),
      tile_columns_(static_cast<std::int64_t>(column_starts_.size())) {
  if (geometry_.axes[0].kernel == 1) geometry_.axes[0].dilation = 1;
  choose_block();
}

std::int64_t WinogradPlan::part_floats() const {
  return base::checked_multiply(round_up(outputs_, lanes_), terms_);
}

std::int64_t WinogradPlan::slices_under(std::int64_t result_slices) const {
  return (result_slices - 1) * geometry_.axes[0].stride + geometry_.axes[0].extent();
}

// Floats of the transforms of a tile over `slices` slices of results.
std::int64_t WinogradPlan::tile_floats(std::int64_t slices) const {
  return base::checked_multiply(
      kWinogradParts, base::checked_multiply(before_slices(slices_under(slices)), inputs_) + slices * outputs_);
}

void WinogradPlan::choose_block() {
  const std::int64_t depth = geometry_.axes[0].output;
  const auto choose = [&](std::int64_t floats) {
    cut_.slices = ceil_divide(depth, ceil_divide(depth, kMostSlices));
    while (cut_.slices > 1 && tile_floats(cut_.slices) > floats) cut_.slices = ceil_divide(cut_.slices, 2);
    cut_.tiles = floats / tile_floats(cut_.slices);
  };
  choose(kOwnFloats);
  const std::int64_t rows = cut_.tiles * cut_.slices;
  own_blocks_ = rows >= kFewestOwnTiles && tiles() * depth / rows >= kFewestOwnBlocks;
  // Each block reads all weights: with many weights, blocks are larger than a core's cache.
  if (!own_blocks_) choose(std::clamp(part_floats() * kWinogradParts, kBlockFloats, kMostBlockFloats));
  // Rounds to whole groups of the product's rows.
  if (cut_.slices == 1) cut_.tiles = cut_.tiles / product_rows_ * product_rows_;
  cut_.tiles = std::max(cut_.tiles, ceil_divide(product_rows_, cut_.slices));
  even_out(cut_);
}

// Makes blocks about equal in size, no larger than before, and sets the distances between parts.
void WinogradPlan::even_out(WinogradCut& cut) const {
  cut.tiles = ceil_divide(tiles(), ceil_divide(tiles(), cut.tiles));
  cut.before_stride = part_stride(cut.tiles * before_slices(slices_under(cut.slices)) * inputs_);
  cut.after_stride = part_stride(cut.tiles * cut.slices * outputs_);
}

bool WinogradPlan::gives_each_a_block(std::int64_t threads) const {
  return geometry_.axes[0].output == 1 && tiles() >= threads * product_rows_ &&
         part_floats() * kWinogradParts * 4 <= kOwnWeightBytes;
}

WinogradCut WinogradPlan::cut_for(std::int64_t threads) const {
  WinogradCut cut = cut_;
  const std::int64_t rounds =
      ceil_divide(ceil_divide(tiles(), threads), std::max(product_rows_, kBlockFloats / tile_floats(1)));
  cut.tiles = ceil_divide(tiles(), threads * rounds);
  even_out(cut);
  return cut;
}

std::int64_t WinogradPlan::blocks(const WinogradCut& cut) const {
  return ceil_divide(tiles(), cut.tiles) * ceil_divide(geometry_.axes[0].output, cut.slices);
}

WinogradBlock WinogradPlan::block_at(const WinogradCut& cut, std::int64_t i) const {
  const auto& depth = geometry_.axes[0];
  const std::int64_t across = ceil_divide(tiles(), cut.tiles);
  WinogradBlock block{.before_stride = cut.before_stride,
                      .after_stride = cut.after_stride,
                      .first = i % across * cut.tiles,
                      .result_slice = i / across * cut.slices};
  block.tiles = std::min(cut.tiles, tiles() - block.first);
  block.result_slices = std::min(cut.slices, depth.output - block.result_slice);
  block.slice = block.result_slice * depth.stride - depth.pad_begin;
  block.slices = slices_under(block.result_slices);
  block.tile_slices = before_slices(block.slices);
  return block;
}

WinogradPlan::Place WinogradPlan::place(std::int64_t tile) const {
  return {tile / tile_columns_ / tile_rows_, row_starts_[static_cast<std::size_t>(tile / tile_columns_ % tile_rows_)],
          column_starts_[static_cast<std::size_t>(tile % tile_columns_)]};
}

bool WinogradPlan::is_read(std::int64_t i) const {
  const auto& depth = geometry_.axes[0];
  if (depth.stride == 1) return true;
  for (std::int64_t offset = i; offset >= 0 && offset > i - depth.extent(); offset -= depth.dilation) {
    if (offset % depth.stride == 0) return true;
  }
  return false;
}

}  // namespace tessera::backends::cpu
