// Convolution of stride 1 over two axes of 3 × 3 in float32 with the channels last, by Winograd's minimal filtering
// (winograd_transforms.h): a quarter of the multiplications. A third axis before them may have any window: its taps are
// summed like channels, between the transforms, so that a slice of input is transformed once for all slices of the
// result that it is read for.
//
// Dilated windows of 3 × 3 are undilated ones over every d-th row and column of the input: each tile takes such rows
// and columns of one of the d × d phases, of the input and of the result.
//
// Longer than 400 lines: the phases of one kernel, which share its plan, and below them the rules by which it is
// chosen.
//
// A block is some tiles on some neighbouring slices: 36 products [tiles and slices × taps and inputs] · [taps and
// inputs × outputs].
#include <fmt/format.h>
#include <hwy/base.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/window_product.h"
#include "backends/cpu/convolutions/winograd_transforms.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/indirect_product.h"
#include "backends/cpu/products/indirect_product_bf16.h"
#include "base/checked.h"
#include "base/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr std::int64_t kTile = kWinogradTile, kPatch = kWinogradPatch, kParts = kWinogradParts;

// Of both transforms of the tiles that are worked on at a time: by one thread, where they fit into its second-level
// cache and weights are read for enough tiles, otherwise by all threads together.
constexpr std::int64_t kOwnFloats = 128 * 1024, kBlockFloats = 512 * 1024, kMostBlockFloats = 3072 * 1024;
constexpr std::int64_t kFewestOwnTiles = 16, kFewestOwnBlocks = 8, kOwnWeightBytes = 8 << 20;
constexpr std::int64_t kMostSlices = 16;  // of a block: those that two runs of slices need are transformed twice
// With fewer tiles the transformed weights are read for too little: of float32 they are four times the weights as they
// are, eight times those of bfloat16.
constexpr std::int64_t kFewestTiles = 12, kFewestTilesOfBf16 = 32;
constexpr std::int64_t kFewestChannels = 16, kFewestChannelsOfBf16 = 32;
// How many times as many multiplications direct convolution must take. Dilated and in float32, it finds the taps of
// each tile one by one, and tiles that do not cross lines are smaller.
constexpr double kLeastSaved = 2, kLeastSavedDilated = 1.6;
constexpr double kCachedBytes = 3e6;  // of data that is still in a cache near by when it is read
constexpr std::int64_t kAhead = 2;    // tiles
constexpr std::int64_t kLineFloats = CacheLine::kFloats;
constexpr std::int64_t kInputsTogether = 16;  // whose weights are transformed at a time

class Winograd final : public Kernel {
 public:
  Winograd(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()),
        functions_(&winograd_functions()),
        geometry_(channels_last_conv_geometry(view)),
        activation_(plan_activation(view)),
        rounds_(view.has_attribute("precision")),
        rounded_data_(view.input(0).dtype == DType::bf16),
        rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16) {
    const Tensor& weights = *view.constant(1);
    inputs_ = weights.shape()[1];
    outputs_ = weights.shape()[0];
    terms_ = base::checked_multiply(geometry_.axes[0].kernel, inputs_);
    row_starts_ = tile_starts(geometry_.axes[1]);
    column_starts_ = tile_starts(geometry_.axes[2]);
    tile_rows_ = static_cast<std::int64_t>(row_starts_.size());
    tile_columns_ = static_cast<std::int64_t>(column_starts_.size());
    if (geometry_.axes[0].kernel == 1) geometry_.axes[0].dilation = 1;
    choose_block();
    reads_ahead_ =
        !is_dilated() && !rounded_data_ && !rounded_result_ &&
        static_cast<double>(geometry_.batch * geometry_.inputs()) * static_cast<double>(inputs_) * 4 > kCachedBytes;
    bias_.assign(static_cast<std::size_t>(round_up(outputs_, isa_->lanes)), 0.0f);
    zeros_ = bias_;
    if (view.has_input(2)) std::copy_n(view.constant(2)->data<float>(), outputs_, bias_.data());
    weights_ =
        store.find_or_pack(weights, fmt::format("channels_last_winograd_v1:{}{}", isa_->name, rounds_ ? ":bf16" : ""),
                           base::checked_multiply(base::checked_multiply(part_floats(), kParts), 4),
                           [&](const Tensor& contents, std::byte* to) {
                             pack(rounds_ ? rounded(contents) : contents, reinterpret_cast<float*>(to));
                           });
  }

  std::int64_t scratch_bytes() const override {
    return own_blocks_ ? 0 : base::checked_multiply(kParts, cut_.floats_a_part() * 4);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const void* x = context.input(0).raw();
    const void* z = context.has_input(3) ? context.input(3).raw() : nullptr;
    void* y = context.output(0).mutable_raw();
    if (own_blocks_) return run_own_blocks(context, cut_, x, z, y);
    const std::int64_t threads = context.resources().threads();
    if (threads > 1 && gives_each_a_block(threads)) return run_own_blocks(context, cut_for(threads), x, z, y);
    auto* before = reinterpret_cast<float*>(context.scratch());
    float* after = before + kParts * cut_.before_stride;
    for (std::int64_t i = 0; i < blocks(cut_); ++i) {
      const Block block = block_at(cut_, i);
      context.parallel_for(block.tiles * block.slices, 4,
                           [&](std::int64_t begin, std::int64_t end) { read_patches(block, begin, end, x, before); });
      const double part_operations =
          2.0 * static_cast<double>(block.rows()) * static_cast<double>(terms_) * static_cast<double>(outputs_);
      context.parallel_for(kParts,
                           std::clamp<std::int64_t>(static_cast<std::int64_t>(1e6 / part_operations), 1, kParts / 2),
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t part = begin; part < end; ++part) multiply(block, part, before, after);
                           });
      context.parallel_for(block.rows(), 4,
                           [&](std::int64_t begin, std::int64_t end) { write_tiles(block, begin, end, after, z, y); });
    }
  }

 private:
  // How the tiles are cut into blocks.
  struct Cut {
    std::int64_t tiles = 1, slices = 1;                // of a block; slices of results
    std::int64_t before_stride = 0, after_stride = 0;  // from a part of its transforms to the next one

    std::int64_t floats_a_part() const { return base::checked_add(before_stride, after_stride); }
  };

  // Tiles, numbered through images, rows and columns, of a run of slices of results; and the slices of input under
  // these.
  struct Block {
    std::int64_t before_stride, after_stride;
    std::int64_t first, tiles;
    std::int64_t result_slice, result_slices;
    std::int64_t slice, slices;
    std::int64_t tile_slices;  // from a tile to the next one in `before`

    std::int64_t rows() const { return tiles * result_slices; }
  };

  std::int64_t slices_under(std::int64_t result_slices) const {
    return (result_slices - 1) * geometry_.axes[0].stride + geometry_.axes[0].extent();
  }

  // Floats of the transforms of a tile over so many slices of results.
  std::int64_t tile_floats(std::int64_t slices) const {
    return base::checked_multiply(
        kParts, base::checked_multiply(before_slices(slices_under(slices)), inputs_) + slices * outputs_);
  }

  void choose_block() {
    const std::int64_t depth = geometry_.axes[0].output;
    const auto choose = [&](std::int64_t floats) {
      cut_.slices = ceil_divide(depth, ceil_divide(depth, kMostSlices));
      while (cut_.slices > 1 && tile_floats(cut_.slices) > floats) cut_.slices = ceil_divide(cut_.slices, 2);
      cut_.tiles = floats / tile_floats(cut_.slices);
    };
    choose(kOwnFloats);
    const std::int64_t rows = cut_.tiles * cut_.slices;
    own_blocks_ = rows >= kFewestOwnTiles && tiles() * depth / rows >= kFewestOwnBlocks;
    // All weights are read for each block: of many, blocks are larger than a core's cache.
    if (!own_blocks_) choose(std::clamp(part_floats() * kParts, kBlockFloats, kMostBlockFloats));
    // Whole groups of the product's rows.
    if (cut_.slices == 1) cut_.tiles = cut_.tiles / isa_->rows * isa_->rows;
    cut_.tiles = std::max(cut_.tiles, ceil_divide(isa_->rows, cut_.slices));
    even_out(cut_);
  }

  // Blocks of about equal size, no larger, and where the parts of one lie.
  void even_out(Cut& cut) const {
    cut.tiles = ceil_divide(tiles(), ceil_divide(tiles(), cut.tiles));
    cut.before_stride = part_stride(cut.tiles * before_slices(slices_under(cut.slices)) * inputs_);
    cut.after_stride = part_stride(cut.tiles * cut.slices * outputs_);
  }

  // Whether each of so many threads should rather take blocks of its own than have a share in all of them, whose
  // transforms go from core to core then: where there are tiles enough, and weights that each thread reads whole stay
  // in its third-level cache.
  bool gives_each_a_block(std::int64_t threads) const {
    return geometry_.axes[0].output == 1 && tiles() >= threads * isa_->rows &&
           part_floats() * kParts * 4 <= kOwnWeightBytes;
  }

  Cut cut_for(std::int64_t threads) const {
    Cut cut = cut_;
    const std::int64_t rounds =
        ceil_divide(ceil_divide(tiles(), threads), std::max(isa_->rows, kBlockFloats / tile_floats(1)));
    cut.tiles = ceil_divide(tiles(), threads * rounds);
    even_out(cut);
    return cut;
  }

  std::int64_t blocks(const Cut& cut) const {
    return ceil_divide(tiles(), cut.tiles) * ceil_divide(geometry_.axes[0].output, cut.slices);
  }
  Block block_at(const Cut& cut, std::int64_t i) const {
    const auto& depth = geometry_.axes[0];
    const std::int64_t across = ceil_divide(tiles(), cut.tiles);
    Block block{.before_stride = cut.before_stride,
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

  std::int64_t part_floats() const { return base::checked_multiply(round_up(outputs_, isa_->lanes), terms_); }
  // From a part of a block to the next one: an odd number of cache lines, so that the parts of a tile fall into
  // different sets.
  static std::int64_t part_stride(std::int64_t floats) { return (ceil_divide(floats, kLineFloats) | 1) * kLineFloats; }
  std::int64_t tiles() const { return geometry_.batch * tile_rows_ * tile_columns_; }

  void run_own_blocks(KernelContext& context, const Cut& cut, const void* x, const void* z, void* y) const {
    context.parallel_for(blocks(cut), 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<CacheLine> transforms;  // vectors should not lie across two lines
      transforms.resize(static_cast<std::size_t>(kParts * cut.floats_a_part() / kLineFloats));
      float *before = transforms.data()->floats, *after = before + kParts * cut.before_stride;
      for (std::int64_t i = begin; i < end; ++i) {
        const Block block = block_at(cut, i);
        read_patches(block, 0, block.tiles * block.slices, x, before);
        for (std::int64_t part = 0; part < kParts; ++part) multiply(block, part, before, after);
        write_tiles(block, 0, block.rows(), after, z, y);
      }
    });
  }

  // The transforms of the windows of every pair of channels: [part][panel][tap][input][output], outputs rounded up to
  // whole vectors.
  void pack(const Tensor& weights, float* to) const {
    const std::int64_t taps = geometry_.axes[0].kernel, floats = taps * 9;  // of an input
    std::vector<float> windows(static_cast<std::size_t>(kInputsTogether * floats * isa_->columns));
    for (std::int64_t first = 0; first < outputs_; first += isa_->columns, to += isa_->columns * terms_) {
      const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
      std::ranges::fill(windows, 0.0f);
      for (std::int64_t begin = 0; begin < inputs_; begin += kInputsTogether) {
        const std::int64_t end = std::min(inputs_, begin + kInputsTogether);
        gemm_f32_transpose(weights.data<float>() + (first * inputs_ + begin) * floats, inputs_ * floats, 1, columns,
                           (end - begin) * floats, windows.data(), width);
        const float* window = windows.data();
        for (std::int64_t c = begin; c < end; ++c) {
          for (std::int64_t tap = 0; tap < taps; ++tap, window += 9 * width) {
            functions_->transform_weights({.windows = window,
                                           .columns = width,
                                           .parts = to + (tap * inputs_ + c) * width,
                                           .stride = part_floats()});
          }
        }
      }
    }
  }

  struct Place {
    std::int64_t image, row, column;  // of the tile's first output
  };
  Place place(std::int64_t tile) const {
    return {tile / tile_columns_ / tile_rows_, row_starts_[static_cast<std::size_t>(tile / tile_columns_ % tile_rows_)],
            column_starts_[static_cast<std::size_t>(tile % tile_columns_)]};
  }

  // The first outputs of the tiles along an axis, phase by phase.
  static std::vector<std::int64_t> tile_starts(const ops::WindowAxis& axis) {
    std::vector<std::int64_t> starts;
    for (std::int64_t phase = 0; phase < std::min(axis.dilation, axis.output); ++phase) {
      for (std::int64_t start = phase; start < axis.output; start += kTile * axis.dilation) starts.push_back(start);
    }
    return starts;
  }
  bool is_dilated() const { return geometry_.axes[1].dilation > 1 || geometry_.axes[2].dilation > 1; }

  // Asks for the pixels of a tile that is soon read, or written: kTile of each row of a slice, whose rows have
  // `columns` pixels. Not a function of its own, which would compute nothing.
  template <int written>
  HWY_INLINE static void ask_for(const float* slice, std::int64_t begin, std::int64_t end, std::int64_t column,
                                 std::int64_t columns, std::int64_t channels) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = slice + (row * columns + column) * channels;
      for (std::int64_t i = 0; i < kTile * channels; i += kLineFloats) __builtin_prefetch(from + i, written, 2);
    }
  }

  // Whether the result reads the i-th slice under a block.
  bool is_read(std::int64_t i) const {
    const auto& depth = geometry_.axes[0];
    if (depth.stride == 1) return true;
    for (std::int64_t offset = i; offset >= 0 && offset > i - depth.extent(); offset -= depth.dilation) {
      if (offset % depth.stride == 0) return true;
    }
    return false;
  }

  // Slices that the taps of a sum look at follow each other in a block's `before`.
  std::int64_t before_slices(std::int64_t slices) const { return round_up(slices, geometry_.axes[0].dilation); }
  std::int64_t position(const Block& block, std::int64_t under) const {
    const std::int64_t dilation = geometry_.axes[0].dilation;
    return dilation == 1 ? under : under % dilation * (block.tile_slices / dilation) + under / dilation;
  }

  // visit(slice, tile) of a block; neighbouring tiles follow each other in memory.
  template <typename Visit>
  static void for_each_tile(const Block& block, std::int64_t begin, std::int64_t end, Visit visit) {
    std::int64_t slice = begin / block.tiles, tile = begin % block.tiles;
    for (std::int64_t i = begin; i < end; ++i, ++tile) {
      if (tile == block.tiles) {
        tile = 0;
        ++slice;
      }
      base::yield_point();
      visit(slice, tile);
    }
  }

  void read_patches(const Block& block, std::int64_t begin, std::int64_t end, const void* x, float* before) const {
    for_each_tile(block, begin, end, [&](std::int64_t under, std::int64_t tile) {
      if (is_read(under)) read_patch(block, under, tile, x, before);
    });
  }

  void read_patch(const Block& block, std::int64_t under, std::int64_t tile, const void* x, float* before) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t slice = block.slice + under;
    float* parts = before + (tile * block.tile_slices + position(block, under)) * inputs_;
    if (slice < 0 || slice >= depth.input) {
      for (std::int64_t part = 0; part < kParts; ++part) std::fill_n(parts + part * block.before_stride, inputs_, 0.0f);
      return;
    }
    const auto [image, row, column] = place(block.first + tile);
    const std::int64_t first = (image * depth.input + slice) * lines.input * line.input * inputs_;
    WinogradPatch patch{.top = row - lines.pad_begin,
                        .left = column - line.pad_begin,
                        .rows = lines.input,
                        .columns = line.input,
                        .channels = inputs_,
                        .parts = parts,
                        .stride = block.before_stride};
    patch.row_step = lines.dilation;
    patch.column_step = line.dilation;
    if (reads_ahead_) {
      const Place ahead = place(block.first + (tile + kAhead) % block.tiles);
      const std::int64_t ahead_slice = std::min(slice + (tile + kAhead) / block.tiles, depth.input - 1),
                         top = ahead.row - lines.pad_begin;
      // What the patch before it does not read.
      ask_for<0>(
          static_cast<const float*>(x) + (ahead.image * depth.input + ahead_slice) * lines.input * line.input * inputs_,
          std::max<std::int64_t>(top, 0), std::min(top + kPatch, lines.input),
          ahead.column - line.pad_begin + kPatch - kTile, line.input, inputs_);
    }
    patch.kind = rounded_data_ ? WinogradInput::bf16 : rounds_ ? WinogradInput::rounded_f32 : WinogradInput::f32;
    if (rounded_data_) patch.input = static_cast<const std::uint16_t*>(x) + first;
    else patch.input = static_cast<const float*>(x) + first;
    functions_->transform_input(patch);
  }

  static Tensor rounded(const Tensor& weights) {
    Tensor result(DType::f32, weights.shape());
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(weights.elements()));
    to_bf16_row(weights.data<float>(), numbers.data(), weights.elements());
    from_bf16_row(numbers.data(), result.mutable_data<float>(), weights.elements());
    return result;
  }

  void multiply(const Block& block, std::int64_t part, const float* before, float* after) const {
    const float* rows[IndirectProduct::kMostRows];
    IndirectProduct product{
        .segments = 1, .length = terms_, .left = rows, .columns = outputs_, .bias = zeros_.data(), .ldc = outputs_};
    product.right = reinterpret_cast<const float*>(weights_->data.get()) + part * part_floats();
    const std::int64_t count = block.rows(), pieces = ceil_divide(count, isa_->rows),
                       tile_floats = block.tile_slices * inputs_;
    const float *tile = before + part * block.before_stride, *row = tile;
    std::int64_t slice = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = count * piece / pieces, end = count * (piece + 1) / pieces;
      for (std::int64_t i = begin; i < end; ++i) {
        rows[i - begin] = row;
        if (++slice == block.result_slices) {
          slice = 0;
          row = tile += tile_floats;
        } else {
          row = tile + position(block, slice * geometry_.axes[0].stride) * inputs_;
        }
      }
      product.rows = end - begin;
      product.c = after + part * block.after_stride + begin * outputs_;
      base::yield_point();
      isa_->multiply(product);
    }
  }

  void write_tiles(const Block& block, std::int64_t begin, std::int64_t end, const float* after, const void* z,
                   void* y) const {
    for_each_tile(block, begin, end,
                  [&](std::int64_t slice, std::int64_t tile) { write_tile(block, slice, tile, after, z, y); });
  }

  void write_tile(const Block& block, std::int64_t slice, std::int64_t tile, const float* after, const void* z,
                  void* y) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const auto [image, row, column] = place(block.first + tile);
    const std::int64_t offset =
                           (((image * depth.output + block.result_slice + slice) * lines.output + row) * line.output +
                            column) *
                           outputs_,
                       stride = lines.dilation * line.output * outputs_;
    WinogradTile out{.parts = after + (tile * block.result_slices + slice) * outputs_,
                     .stride = block.after_stride,
                     .channels = outputs_,
                     .bias = bias_.data(),
                     .low = activation_.low,
                     .high = activation_.high};
    out.rows = std::min(kTile, ceil_divide(lines.output - row, lines.dilation));
    out.columns = std::min(kTile, ceil_divide(line.output - column, line.dilation));
    out.column_stride = line.dilation * outputs_;
    if (rounded_addend_ || rounded_result_) return write_rounded(out, offset, stride, z, y);
    if (reads_ahead_) {
      const Place ahead = place(block.first + (tile + kAhead) % block.tiles);
      const std::int64_t ahead_slice =
          std::min(block.result_slice + slice + (tile + kAhead) / block.tiles, depth.output - 1);
      ask_for<1>(static_cast<const float*>(y) +
                     (ahead.image * depth.output + ahead_slice) * lines.output * line.output * outputs_,
                 ahead.row, std::min(ahead.row + kTile, lines.output), ahead.column, line.output, outputs_);
    }
    out.addend = z == nullptr ? nullptr : static_cast<const float*>(z) + offset;
    out.output = static_cast<float*>(y) + offset;
    out.row_stride = stride;
    finish(out);
  }

  void finish(const WinogradTile& out) const {
    functions_->transform_output(out);
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < out.rows; ++i) {
      float* row = out.output + i * out.row_stride;
      if (out.column_stride == outputs_) activation_.after(row, out.columns * outputs_);
      else
        for (std::int64_t j = 0; j < out.columns; ++j) activation_.after(row + j * out.column_stride, outputs_);
    }
  }

  // The tile, and what is added to it, in floats of its own first.
  void write_rounded(WinogradTile out, std::int64_t offset, std::int64_t stride, const void* z, void* y) const {
    thread_local std::vector<float> result, addend;
    const std::int64_t count = out.columns * outputs_, column_stride = out.column_stride;
    result.resize(static_cast<std::size_t>(out.rows * count));
    out.output = result.data();
    out.row_stride = count;
    out.column_stride = outputs_;
    // (place in the floats, place in the result, how many) of each run of neighbours.
    const auto for_each_run = [&](auto run) {
      const bool side_by_side = column_stride == outputs_;
      for (std::int64_t i = 0; i < out.rows; ++i) {
        if (side_by_side) run(i * count, offset + i * stride, count);
        else
          for (std::int64_t j = 0; j < out.columns; ++j)
            run(i * count + j * outputs_, offset + i * stride + j * column_stride, outputs_);
      }
    };
    if (z != nullptr) {
      addend.resize(result.size());
      out.addend = addend.data();
      for_each_run([&](std::int64_t here, std::int64_t there, std::int64_t length) {
        if (rounded_addend_) from_bf16_row(static_cast<const std::uint16_t*>(z) + there, addend.data() + here, length);
        else std::copy_n(static_cast<const float*>(z) + there, length, addend.data() + here);
      });
    }
    finish(out);
    for_each_run([&](std::int64_t here, std::int64_t there, std::int64_t length) {
      if (rounded_result_) round_to_bf16_row(result.data() + here, static_cast<std::uint16_t*>(y) + there, length);
      else std::copy_n(result.data() + here, length, static_cast<float*>(y) + there);
    });
  }

  const IndirectProductIsa* isa_;
  const WinogradFunctions* functions_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  bool rounds_, rounded_data_, rounded_addend_, rounded_result_;  // to bfloat16 (ops/rounded_product.h)
  std::int64_t inputs_, outputs_,
      terms_;  // terms_: of a sum between the transforms, taps of the first axis times inputs
  std::int64_t tile_rows_, tile_columns_;
  std::vector<std::int64_t> row_starts_, column_starts_;
  Cut cut_;
  bool reads_ahead_ = false;
  bool own_blocks_ = false;  // of every thread
  std::vector<float> bias_, zeros_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

namespace {

std::string reject_winograd(const ops::NodeView& view) {
  const Shape& w = view.input(1).shape;
  if (w.size() < 4 || w[w.size() - 2] != 3 || w.back() != 3 || view.integer("group") != 1)
    return "no window of 3 x 3 at the end";
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  for (const std::size_t i : {1, 2}) {
    if (geometry.axes[i].stride != 1) return "strides";
  }
  const ops::WindowAxis& depth = geometry.axes[0];
  if (depth.kernel > 1 && depth.dilation > depth.input) return "taps too far apart";
  return geometry.batch * geometry.outputs() * w[0] * w[1] == 0 ? "nothing to compute" : "";
}

// How many tiles all phases of a dilated window have along the axis.
std::int64_t tiles_along(const ops::WindowAxis& axis) {
  const std::int64_t phases = std::min(axis.dilation, axis.output), longer = axis.output % axis.dilation;
  if (phases < axis.dilation) return phases;
  return longer * ceil_divide(axis.output / axis.dilation + 1, kTile) +
         (axis.dilation - longer) * ceil_divide(axis.output / axis.dilation, kTile);
}

std::string avoid_winograd(const ops::NodeView& view, std::int64_t fewest_channels, std::int64_t fewest_tiles,
                           double least_saved_dilated = kLeastSavedDilated) {
  const Shape& w = view.input(1).shape;
  if (std::min(w[0], w[1]) < fewest_channels) return "few channels";
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  double tiles = static_cast<double>(geometry.batch * geometry.axes[0].output);
  double direct = 9.0 * static_cast<double>(geometry.batch * geometry.outputs());  // multiplications a pair of channels
  for (const std::size_t i : {1, 2}) {
    const ops::WindowAxis& axis = geometry.axes[i];
    tiles *= static_cast<double>(tiles_along(axis));
    // What lies in the padding of dilated windows is skipped for the most part.
    if (axis.dilation > 1) direct *= share_inside(axis);
  }
  if (tiles < static_cast<double>(fewest_tiles)) return "few tiles of 4 x 4";
  // What a tile reaches beyond the result is computed for nothing.
  const double saved = direct / (static_cast<double>(kParts) * tiles);
  const bool dilated = geometry.axes[1].dilation > 1 || geometry.axes[2].dilation > 1;
  return saved < (dilated ? least_saved_dilated : kLeastSaved) ? "thin results" : "";
}

}  // namespace

std::string reject_channels_last_winograd(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_conv(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
std::string avoid_channels_last_winograd(const ops::NodeView& view) {
  return avoid_winograd(view, kFewestChannels, kFewestTiles);
}

std::string reject_bf16_winograd(const ops::NodeView& view) {
  if (std::string reason = reject_bf16_conv(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
// A quarter of the multiplications in float32 against all of them at twice the speed, where the machine has
// instructions for these, or at sixteen times with tile registers. Over volumes sums are longer, and transforms the
// lesser part.
std::string avoid_bf16_winograd(const ops::NodeView& view) {
  if (active_tiles() || emulates_tiles()) return "tile registers multiply faster";
  if (!active_bf16() || channels_last_conv_geometry(view).axes[0].kernel > 1)
    return avoid_winograd(view, kFewestChannels, kFewestTiles);
  return avoid_winograd(view, kFewestChannelsOfBf16, kFewestTilesOfBf16, kLeastSaved);
}

KernelPointer make_channels_last_winograd(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Winograd>(view, weights);
}

}  // namespace tessera::backends::cpu
