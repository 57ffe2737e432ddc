// The gradient of a convolution's weights in float32 by Winograd's algorithm (winograd_gradient_transforms.h): a
// quarter of the multiplications of the product of windows. For windows of 3 × 3 of stride 1 over the last two axes; a
// third axis before them may have any window of stride 1.
//
// A column is one tile in all slices of an image. Its rows are the transforms of its slices: of X with the padding of
// the third axis, of G followed by as many rows of zeros; a tap of that axis multiplies G by rows of X at a fixed
// offset, the same for all columns. Columns are taken in blocks whose transforms stay in the third-level cache: 36
// parts [rows][channels] of X and of G. Each thread then adds, for some outputs, the products of all parts to its sums.
#include <algorithm>
#include <vector>

#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/convolutions/winograd/winograd_gradient_transforms.h"
#include "backends/cpu/products/gemm_f32_isa.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;

constexpr std::int64_t kGradientBlockFloats = 3 << 20;     // of both transforms of a block
constexpr std::int64_t kFewestRows = 32, kMostRows = 256;  // of a block
constexpr std::int64_t kMostPanels = 4;                    // panels of outputs per thread and step
constexpr std::int64_t kUnitsWanted = 8;

// The distance between rows: an odd number of cache lines, so that rows fall into different sets.
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
        tile_rows_(ceil_divide(geometry.axes[1].output, kWinogradTile)),
        tile_columns_(ceil_divide(geometry.axes[2].output, kWinogradTile)),
        column_rows_(geometry.axes[0].output + geometry.axes[0].extent() - 1) {
    const std::int64_t most = std::clamp(kGradientBlockFloats / (kWinogradParts * (x_stride_ + g_stride_)), kFewestRows,
                                         kMostRows),
                       most_columns = std::max<std::int64_t>(1, most / column_rows_);
    block_columns_ = ceil_divide(columns(), ceil_divide(columns(), most_columns));
    unit_outputs_ = isa_->rows * std::clamp<std::int64_t>(outputs_ / (isa_->rows * kUnitsWanted), 1, kMostPanels);
  }

  // [X's parts][G's parts][sums of each unit]
  std::int64_t scratch_bytes() const override {
    const std::int64_t transforms = base::checked_add(x_part_floats(), g_part_floats());
    return base::checked_multiply(base::checked_add(base::checked_multiply(kWinogradParts, transforms),
                                                    base::checked_multiply(units(), unit_floats())),
                                  4);
  }

  void compute(KernelContext& context, const float* x, const float* g, float* w, std::byte* scratch) const override {
    auto* x_parts = reinterpret_cast<float*>(scratch);
    float *g_parts = x_parts + kWinogradParts * x_part_floats(), *sums = g_parts + kWinogradParts * g_part_floats();
    for (std::int64_t first = 0; first < columns(); first += block_columns_) {
      const std::int64_t rows = std::min(block_columns_, columns() - first) * column_rows_;
      // Rows of X behind the last column are multiplied by zeros, so they must not be NaN or infinite.
      const std::int64_t behind = geometry_.axes[0].extent() - 1;
      context.parallel_for(rows + behind, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          base::yield_point();
          transform_data(first, row, rows, x, x_parts);
          if (row < rows) transform_gradient(first, row, g, g_parts);
        }
      });
      context.parallel_for(units(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          float* own = sums + unit * unit_floats();
          add_products(unit, rows, first > 0, x_parts, g_parts, own);
          if (first + block_columns_ >= columns()) collect(unit, own, w);
        }
      });
    }
  }

 private:
  std::int64_t columns() const { return geometry_.batch * tile_rows_ * tile_columns_; }
  std::int64_t block_rows() const { return base::checked_multiply(block_columns_, column_rows_); }
  std::int64_t x_part_floats() const {
    return base::checked_multiply(block_rows() + geometry_.axes[0].extent() - 1, x_stride_);
  }
  std::int64_t g_part_floats() const { return base::checked_multiply(block_rows(), g_stride_); }
  std::int64_t units() const { return ceil_divide(outputs_, unit_outputs_); }
  // [tap of the third axis][part][output][input]
  std::int64_t unit_floats() const { return base::checked_multiply(geometry_.axes[0].kernel, tap_floats()); }
  std::int64_t tap_floats() const { return base::checked_multiply(kWinogradParts * unit_outputs_, x_stride_); }

  struct Place {
    std::int64_t image, slot, row, column;
  };
  Place place_of(std::int64_t first_column, std::int64_t row) const {
    const std::int64_t column = first_column + row / column_rows_, tile = column % (tile_rows_ * tile_columns_);
    return {column / (tile_rows_ * tile_columns_), row % column_rows_, tile / tile_columns_ * kWinogradTile,
            tile % tile_columns_ * kWinogradTile};
  }

  static void clear(float* parts, std::int64_t channels, std::int64_t stride) {
    for (std::int64_t part = 0; part < kWinogradParts; ++part) std::fill_n(parts + part * stride, channels, 0.0f);
  }

  void transform_data(std::int64_t first_column, std::int64_t row, std::int64_t rows, const float* x,
                      float* x_parts) const {
    const auto& [depth, lines, line] = geometry_.axes;
    float* to = x_parts + row * x_stride_;
    const Place place = place_of(first_column, row);
    const std::int64_t slice = place.slot - depth.pad_begin;
    if (row >= rows || slice < 0 || slice >= depth.input) return clear(to, inputs_, x_part_floats());
    functions_->transform_input({.input = x + (place.image * depth.input + slice) * lines.input * line.input * inputs_,
                                 .top = place.row - lines.pad_begin,
                                 .left = place.column - line.pad_begin,
                                 .rows = lines.input,
                                 .columns = line.input,
                                 .channels = inputs_,
                                 .parts = to,
                                 .stride = x_part_floats()});
  }

  void transform_gradient(std::int64_t first_column, std::int64_t row, const float* g, float* g_parts) const {
    const auto& [depth, lines, line] = geometry_.axes;
    float* to = g_parts + row * g_stride_;
    const Place place = place_of(first_column, row);
    if (place.slot >= depth.output) return clear(to, outputs_, g_part_floats());
    gradient_functions_->transform_gradient(
        {.input = g + (place.image * depth.output + place.slot) * lines.output * line.output * outputs_,
         .top = place.row,
         .left = place.column,
         .rows = lines.output,
         .columns = line.output,
         .channels = outputs_,
         .parts = to,
         .stride = g_part_floats()});
  }

  // sums += Gᵀ X of each part and tap, for the outputs of a unit.
  void add_products(std::int64_t unit, std::int64_t rows, bool accumulate, const float* x_parts, const float* g_parts,
                    float* sums) const {
    const ops::WindowAxis& depth = geometry_.axes[0];
    const std::int64_t first = unit * unit_outputs_, outputs = std::min(unit_outputs_, outputs_ - first);
    thread_local std::vector<CacheLine> packed;  // [panel][row][output]
    packed.resize(static_cast<std::size_t>(ceil_divide(rows * unit_outputs_, CacheLine::kFloats)));
    float* left = packed.data()->floats;
    PanelProduct product{.k = rows, .right_row_stride = x_stride_, .ldc = x_stride_, .accumulate = accumulate};
    for (std::int64_t part = 0; part < kWinogradParts; ++part) {
      base::yield_point();
      for (std::int64_t output = 0; output < outputs; output += isa_->rows) {
        const std::int64_t count = std::min(isa_->rows, outputs - output);
        isa_->pack(g_parts + part * g_part_floats() + first + output, 1, g_stride_, count, rows, left + output * rows,
                   count);
      }
      for (std::int64_t tap = 0; tap < depth.kernel; ++tap) {
        const float* x = x_parts + part * x_part_floats() + tap * depth.dilation * x_stride_;
        float* c = sums + tap * tap_floats() + part * unit_outputs_ * x_stride_;
        for (std::int64_t input = 0; input < inputs_; input += isa_->columns) {
          product.columns = std::min(isa_->columns, inputs_ - input);
          product.right = x + input;
          for (std::int64_t output = 0; output < outputs; output += isa_->rows) {
            product.rows = std::min(isa_->rows, outputs - output);
            product.left = left + output * rows;
            product.c = c + output * x_stride_ + input;
            isa_->multiply(product);
          }
        }
      }
    }
  }

  void collect(std::int64_t unit, const float* sums, float* w) const {
    const std::int64_t first = unit * unit_outputs_, outputs = std::min(unit_outputs_, outputs_ - first);
    for (std::int64_t tap = 0; tap < geometry_.axes[0].kernel; ++tap) {
      for (std::int64_t output = 0; output < outputs; ++output) {
        gradient_functions_->collect_weights({.parts = sums + tap * tap_floats() + output * x_stride_,
                                              .stride = unit_outputs_ * x_stride_,
                                              .inputs = inputs_,
                                              .weights = w + (first + output) * inputs_ * geometry_.taps() + tap * 9,
                                              .taps = geometry_.taps()});
      }
    }
  }

  const GemmF32Isa* isa_;
  const WinogradFunctions* functions_;
  const WinogradGradientFunctions* gradient_functions_;
  ChannelsLastGeometry geometry_;
  std::int64_t inputs_, outputs_, x_stride_, g_stride_;  // distance between rows of a part, in floats
  std::int64_t tile_rows_, tile_columns_;                // of a slice
  std::int64_t column_rows_;
  std::int64_t block_columns_ = 1, unit_outputs_ = 1;
};

}  // namespace

std::string reject_winograd_weight_gradient(const ChannelsLastGeometry& geometry) {
  if (geometry.axes[0].stride != 1) return "strides";
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
    covered *= static_cast<double>(size) / static_cast<double>(base::round_up(size, kWinogradTile));
    tiles *= ceil_divide(size, kWinogradTile);
  }
  if (tiles < kFewestRows) return "few tiles of 4 x 4";
  return covered < kLeastCovered ? "thin results" : "";
}

std::unique_ptr<WeightGradient> make_winograd_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                  std::int64_t outputs) {
  return std::make_unique<WinogradWeightGradient>(geometry, outputs);
}

}  // namespace tessera::backends::cpu
