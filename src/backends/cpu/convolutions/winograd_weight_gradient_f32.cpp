// The gradient of a convolution's weights in float32 by Winograd's algorithm (winograd_gradient_transforms.h): a
// quarter of the multiplications of the product of windows. For windows of 3 × 3 of stride 1 over the last two axes;
// the taps of a third axis before them are gradients of their own.
//
// Tiles are taken in blocks, whose transforms stay in the third-level cache: 36 parts [tiles][channels] of X and of G.
// Each thread then adds, for some outputs, the products of all parts to its sums.
#include <hwy/aligned_allocator.h>

#include <algorithm>

#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/convolutions/winograd_gradient_transforms.h"
#include "backends/cpu/products/gemm_f32_isa.h"
#include "base/checked.h"
#include "base/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;

constexpr std::int64_t kTile = kWinogradTile, kParts = kWinogradParts;
constexpr std::int64_t kBlockFloats = 3 << 20;  // of both transforms of a block
constexpr std::int64_t kFewestTiles = 32, kMostTiles = 256;
constexpr std::int64_t kMostPanels = 4;  // of outputs that a thread takes at a time
constexpr std::int64_t kUnitsWanted = 8;

// An odd number of cache lines, so that rows fall into different sets.
std::int64_t row_stride(std::int64_t channels) {
  return (ceil_divide(channels, CacheLine::kFloats) | 1) * CacheLine::kFloats;
}

class WinogradWeightGradient final : public WeightGradient {
 public:
  WinogradWeightGradient(const ChannelsLastGeometry& geometry, std::int64_t outputs)
      : isa_(&gemm_f32_isa()),
        functions_(&winograd_functions()),
        gradient_functions_(&winograd_gradient_functions()),
        geometry_(geometry),
        inputs_(geometry.channels),
        outputs_(outputs),
        x_stride_(row_stride(inputs_)),
        g_stride_(row_stride(outputs_)),
        tile_rows_(ceil_divide(geometry.axes[1].output, kTile)),
        tile_columns_(ceil_divide(geometry.axes[2].output, kTile)) {
    const std::int64_t tiles = slice_tiles() * geometry_.batch * geometry_.axes[0].output,
                       most = std::clamp(kBlockFloats / (kParts * (x_stride_ + g_stride_)), kFewestTiles, kMostTiles);
    block_tiles_ = ceil_divide(tiles, ceil_divide(tiles, most));
    unit_rows_ = isa_->rows * std::clamp<std::int64_t>(outputs_ / (isa_->rows * kUnitsWanted), 1, kMostPanels);
  }

  // [X's parts][G's parts][units of sums, where there are several blocks]
  std::int64_t scratch_bytes() const override {
    const std::int64_t transforms =
        base::checked_multiply(kParts * block_tiles_, base::checked_add(x_stride_, g_stride_));
    return base::checked_multiply(base::checked_add(transforms, base::checked_multiply(units(), unit_floats())), 4);
  }

  void compute(KernelContext& context, const float* x, const float* g, float* w, std::byte* scratch) const override {
    const ops::WindowAxis& depth = geometry_.axes[0];
    for (std::int64_t tap = 0; tap < depth.kernel; ++tap) {
      // Slices of the result under which the tap reads a slice of the data.
      const std::int64_t start = tap * depth.dilation - depth.pad_begin,
                         first = start >= 0 ? 0 : ceil_divide(-start, depth.stride),
                         end = start >= depth.input
                                   ? first
                                   : std::max(first,
                                              std::min(depth.output, (depth.input - 1 - start) / depth.stride + 1));
      sum_over_tiles(context, {first, end - first, start}, x, g, w + tap * 9, reinterpret_cast<float*>(scratch));
    }
  }

 private:
  // Slices of the result from `first` on; slice d of it reads slice d · stride + start of the data.
  struct Slices {
    std::int64_t first, count, start;
  };

  std::int64_t slice_tiles() const { return tile_rows_ * tile_columns_; }
  std::int64_t units() const { return ceil_divide(outputs_, unit_rows_); }
  std::int64_t unit_floats() const { return base::checked_multiply(kParts * unit_rows_, x_stride_); }

  void sum_over_tiles(KernelContext& context, const Slices& slices, const float* x, const float* g, float* w,
                      float* scratch) const {
    const std::int64_t tiles = geometry_.batch * slices.count * slice_tiles();
    float *x_parts = scratch, *g_parts = x_parts + kParts * block_tiles_ * x_stride_,
          *sums = g_parts + kParts * block_tiles_ * g_stride_;
    if (tiles == 0) {
      for (std::int64_t i = 0; i < outputs_ * inputs_; ++i) std::fill_n(w + i * geometry_.taps(), 9, 0.0f);
      return;
    }
    for (std::int64_t first = 0; first < tiles; first += block_tiles_) {
      const std::int64_t count = std::min(block_tiles_, tiles - first);
      context.parallel_for(count, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) transform_tile(slices, first + i, i, x, g, x_parts, g_parts);
      });
      context.parallel_for(units(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          float* own = sums + unit * unit_floats();
          add_products(unit, count, first > 0, x_parts, g_parts, own);
          if (first + count == tiles) collect(unit, own, w);
        }
      });
    }
  }

  void transform_tile(const Slices& slices, std::int64_t tile, std::int64_t place, const float* x, const float* g,
                      float* x_parts, float* g_parts) const {
    const auto& [depth, lines, line] = geometry_.axes;
    base::yield_point();
    const std::int64_t slice = tile / slice_tiles(), image = slice / slices.count,
                       result_slice = slices.first + slice % slices.count,
                       row = tile % slice_tiles() / tile_columns_ * kTile, column = tile % tile_columns_ * kTile;
    const std::int64_t data_slice = result_slice * depth.stride + slices.start;
    functions_->transform_input({.input = x + (image * depth.input + data_slice) * lines.input * line.input * inputs_,
                                 .top = row - lines.pad_begin,
                                 .left = column - line.pad_begin,
                                 .rows = lines.input,
                                 .columns = line.input,
                                 .channels = inputs_,
                                 .parts = x_parts + place * x_stride_,
                                 .stride = block_tiles_ * x_stride_});
    gradient_functions_->transform_gradient(
        {.input = g + (image * depth.output + result_slice) * lines.output * line.output * outputs_,
         .top = row,
         .left = column,
         .rows = lines.output,
         .columns = line.output,
         .channels = outputs_,
         .parts = g_parts + place * g_stride_,
         .stride = block_tiles_ * g_stride_});
  }

  // sums[part][output][input] += Gᵀ X of each part, for the outputs of a unit.
  void add_products(std::int64_t unit, std::int64_t tiles, bool accumulate, const float* x_parts, const float* g_parts,
                    float* sums) const {
    const std::int64_t first = unit * unit_rows_, rows = std::min(unit_rows_, outputs_ - first);
    thread_local hwy::AlignedFreeUniquePtr<float[]> left =
        hwy::AllocateAligned<float>(static_cast<std::size_t>(kMostTiles * kMostPanels * kMostRows));
    PanelProduct product{.k = tiles, .ldc = x_stride_, .accumulate = accumulate};
    product.right_row_stride = x_stride_;
    for (std::int64_t part = 0; part < kParts; ++part) {
      base::yield_point();
      for (std::int64_t row = 0; row < rows; row += isa_->rows) {
        const std::int64_t count = std::min(isa_->rows, rows - row);
        isa_->pack(g_parts + part * block_tiles_ * g_stride_ + first + row, 1, g_stride_, count, tiles,
                   left.get() + row * tiles, count);
      }
      for (std::int64_t column = 0; column < inputs_; column += isa_->columns) {
        product.columns = std::min(isa_->columns, inputs_ - column);
        product.right = x_parts + part * block_tiles_ * x_stride_ + column;
        for (std::int64_t row = 0; row < rows; row += isa_->rows) {
          product.rows = std::min(isa_->rows, rows - row);
          product.left = left.get() + row * tiles;
          product.c = sums + (part * unit_rows_ + row) * x_stride_ + column;
          isa_->multiply(product);
        }
      }
    }
  }

  void collect(std::int64_t unit, const float* sums, float* w) const {
    const std::int64_t first = unit * unit_rows_, rows = std::min(unit_rows_, outputs_ - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      gradient_functions_->collect_weights({.parts = sums + row * x_stride_,
                                            .stride = unit_rows_ * x_stride_,
                                            .inputs = inputs_,
                                            .weights = w + (first + row) * inputs_ * geometry_.taps(),
                                            .taps = geometry_.taps()});
    }
  }

  static constexpr std::int64_t kMostRows = 16;  // of a panel in any instruction set

  const GemmF32Isa* isa_;
  const WinogradFunctions* functions_;
  const WinogradGradientFunctions* gradient_functions_;
  ChannelsLastGeometry geometry_;
  std::int64_t inputs_, outputs_, x_stride_, g_stride_;  // floats from a tile to the next one in a part
  std::int64_t tile_rows_, tile_columns_;                // of a slice
  std::int64_t block_tiles_ = 1, unit_rows_ = 1;
};

}  // namespace

std::string reject_winograd_weight_gradient(const ChannelsLastGeometry& geometry) {
  for (const std::size_t i : {1, 2}) {
    const ops::WindowAxis& axis = geometry.axes[i];
    if (axis.kernel != 3 || axis.stride != 1 || axis.dilation != 1) return "no window of 3 x 3 of stride 1 at the end";
  }
  return "";
}

std::string avoid_winograd_weight_gradient(const ChannelsLastGeometry& geometry, std::int64_t outputs) {
  constexpr std::int64_t kFewestChannels = 16;
  constexpr double kLeastCovered = 0.5;
  if (std::min(geometry.channels, outputs) < kFewestChannels) return "few channels";
  double covered = 1;
  std::int64_t tiles = geometry.batch * geometry.axes[0].output;
  for (const std::size_t i : {1, 2}) {
    const std::int64_t size = geometry.axes[i].output;
    covered *= static_cast<double>(size) / static_cast<double>(base::round_up(size, kTile));
    tiles *= ceil_divide(size, kTile);
  }
  if (tiles < kFewestTiles) return "few tiles of 4 x 4";
  return covered < kLeastCovered ? "thin results" : "";
}

std::unique_ptr<WeightGradient> make_winograd_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                  std::int64_t outputs) {
  return std::make_unique<WinogradWeightGradient>(geometry, outputs);
}

}  // namespace tessera::backends::cpu
