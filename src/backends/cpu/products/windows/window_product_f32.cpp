// Indirect products of windows in float32 with packed weights.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "backends/cpu/products/windows/window_product.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;

constexpr double kChunkOperations = 2e6;
constexpr double kCachedBytes = 3e6;  // data of this size is still in a near cache when it is read

class WindowProductF32 final : public LineKernel {
 public:
  WindowProductF32(const ops::NodeView& view, WeightStore& store, const WindowLayer& layer, std::string_view packing)
      : isa_(&indirect_product_isa()),
        layer_(layer),
        activation_(plan_activation(view)),
        segments_(layer.geometry, layer.inputs, layer.groups),
        windows_(layer.geometry, segments_, layer.inputs, segments_.length, IndirectProduct::kMostRows, true),
        depth_(base::checked_multiply(segments_.count, segments_.length)),
        split_(plan_split()),
        reads_ahead_(static_cast<double>(layer.geometry.batch * layer.geometry.inputs()) *
                         static_cast<double>(layer.geometry.channels) * 4 >
                     kCachedBytes),
        zeros_(static_cast<std::size_t>(segments_.length), 0.0f),
        operands_(view, store,
                  {.name = fmt::format("{}:{}:{}", packing, isa_->name, layer.groups),
                   .floats = base::checked_multiply(layer.groups, group_floats()),
                   .pieces = layer.groups * group_panels(),
                   .pack = [this](const float* weights, float* to, std::int64_t piece) { pack(weights, to, piece); }},
                  {.floats = layer.groups * bias_floats(),
                   .place = [this](const float* bias, float* to) { place_bias(bias, to); }}) {}

  std::int64_t scratch_bytes() const override { return operands_.scratch_bytes(); }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const Operands operands = operands_.prepare(context, context.scratch());
    const float* x = context.input(0).data<float>();
    const float* z = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(split_.chunks(), split_.grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        split_.for_each_tile(chunk, [&](const ProductTile& tile) {
          const auto [group, row, rows, column, columns, depth, partial] = tile;
          const std::int64_t offset = row * split_.groups * layer_.outputs + first_output(group, column);
          const float* const* left = windows_.at(x + group * layer_.inputs, row, rows, zeros_.data());
          if (reads_ahead_) read_ahead(left, rows);
          run_tile(operands, left, group, rows, column, columns, z == nullptr ? nullptr : z + offset, y + offset,
                   weights_behind(operands, group, row, column, columns));
        });
      }
    });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& addend, const ByteLines& result, std::int64_t first,
                 std::int64_t last) const override {
    const auto x = lines_of_type<const float>(data), z = lines_of_type<const float>(addend);
    const auto y = lines_of_type<float>(result);
    const std::int64_t width = layer_.geometry.axes[2].output, ldc = split_.groups * layer_.outputs;
    ProductSplit split = split_;
    split.rows = (last - first) * width;
    split.row_chunks = split.panel_chunks = 1;
    const bool reads_ahead = reads_ahead_ && x.period == 0;
    const Operands operands = operands_.constants();
    for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
      split.for_each_tile(chunk, [&](const ProductTile& tile) {
        const auto [group, row, rows, column, columns, depth, partial] = tile;
        const std::int64_t offset = row * ldc + first_output(group, column);
        const float* const* left = windows_.at({x.data + group * layer_.inputs, x.elements, x.period},
                                               first * width + row, rows, zeros_.data());
        if (reads_ahead) read_ahead(left, rows);
        run_tile(operands, left, group, rows, column, columns, z.data == nullptr ? nullptr : z.at(first) + offset,
                 y.at(first) + offset);
      });
    }
  }

 private:
  using Operands = LayerOperands::Pointers;

  ProductSplit plan_split() const {
    const ChannelsLastGeometry& geometry = layer_.geometry;
    ProductSplit split{.rows = layer_.rows(),
                       .columns = layer_.outputs,
                       .groups = layer_.groups,
                       .tile_rows = isa_->rows,
                       .tile_columns = isa_->columns};
    if (!segments_.whole_lines) split.line_tiles = tiles_of_line(geometry.axes[2], isa_->rows);
    split.line_rows = geometry.axes[2].output;
    const double operations =
        2.0 * static_cast<double>(split.rows) * static_cast<double>(split.columns) * static_cast<double>(depth_);
    split.choose(operations, kChunkOperations, isa_->columns * depth_ * 4,
                 geometry.batch * geometry.inputs() * layer_.inputs * 4);
    return split;
  }

  // [group][lane], zero behind the outputs of a group.
  std::int64_t bias_floats() const { return round_up(layer_.outputs, isa_->lanes); }
  void place_bias(const float* bias, float* to) const {
    for (std::int64_t g = 0; g < layer_.groups; ++g)
      std::copy_n(bias + g * layer_.outputs, layer_.outputs, to + g * bias_floats());
  }

  std::int64_t group_floats() const { return round_up(layer_.outputs, isa_->lanes) * depth_; }
  std::int64_t group_panels() const { return base::ceil_divide(layer_.outputs, isa_->columns); }

  // [group][panel][tap][channel][column], columns rounded up to whole vectors; a piece is a panel of a group.
  void pack(const float* weights, float* to, std::int64_t piece) const {
    const std::int64_t taps = layer_.geometry.taps(), group = piece / group_panels(),
                       first = piece % group_panels() * isa_->columns;
    const std::int64_t columns = std::min(isa_->columns, layer_.outputs - first),
                       width = round_up(columns, isa_->lanes);
    const float* from = weights + (group * layer_.outputs + first) * layer_.strides.output;
    to += group * group_floats() + first * depth_;
    if (columns < width) std::fill_n(to, width * depth_, 0.0f);
    if (taps == 1)
      return gemm_f32_transpose(from, layer_.strides.output, layer_.strides.channel, columns, layer_.inputs, to, width);
    // The taps of a channel are contiguous in the weights: a few channels at a time are transposed, then their rows go
    // to the taps.
    thread_local std::vector<float> together;
    together.resize(static_cast<std::size_t>(kPackedTogether * taps * isa_->columns));
    for (std::int64_t c = 0; c < layer_.inputs; c += kPackedTogether) {
      const std::int64_t count = std::min(layer_.inputs - c, kPackedTogether);
      gemm_f32_transpose(from + c * taps, layer_.strides.output, 1, columns, count * taps, together.data(), width);
      for (std::int64_t row = 0; row < count * taps; ++row)
        std::copy_n(together.data() + row * width, columns, to + (row % taps * layer_.inputs + c + row / taps) * width);
    }
  }

  std::int64_t first_output(std::int64_t group, std::int64_t column) const { return group * layer_.outputs + column; }

  // Prefetches the pixels behind the last of these windows, which the next windows need.
  void read_ahead(const float* const* left, std::int64_t count) const {
    const ops::WindowAxis& line = layer_.geometry.axes[2];
    const std::int64_t taps = segments_.whole_lines ? 1 : line.kernel,
                       floats = count * line.stride * layer_.geometry.channels;
    for (std::int64_t s = taps - 1; s < segments_.count; s += taps) {
      const float* last = left[s * IndirectProduct::kMostRows + count - 1];
      if (last == nullptr) continue;
      const float* from = last + (segments_.whole_lines ? segments_.length : layer_.geometry.channels);
      for (std::int64_t i = 0; i < floats; i += CacheLine::kFloats) __builtin_prefetch(from + i, 0, 2);
    }
  }

  const float* packed(const Operands& operands, std::int64_t group, std::int64_t column) const {
    return operands.weights + group * group_floats() + column * depth_;
  }

  // If there are more weights than data, the next panels come from memory: each tile of rows prefetches its share of as
  // many columns as it multiplies. Null: nothing to prefetch.
  const float* weights_behind(const Operands& operands, std::int64_t group, std::int64_t row, std::int64_t first,
                              std::int64_t columns) const {
    constexpr std::int64_t kMostFloats = 96 * 1024;  // two of these fit the second-level cache beside the data
    if (split_.rows_first || first + columns >= layer_.outputs || columns * depth_ > kMostFloats) return nullptr;
    const std::int64_t tile = base::ceil_divide(row * base::ceil_divide(split_.rows, isa_->rows), split_.rows),
                       panels = base::ceil_divide(columns, isa_->columns);
    const std::int64_t fetched = tile * panels * depth_ * IndirectProduct::kNextFloats;
    return fetched < std::min(columns, layer_.outputs - first - columns) * depth_
               ? packed(operands, group, first + columns) + fetched
               : nullptr;
  }

  // Computes the columns [first, first + columns) of a group for `count` windows; z (or null) and y begin there.
  void run_tile(const Operands& operands, const float* const* left, std::int64_t group, std::int64_t count,
                std::int64_t first, std::int64_t columns, const float* z, float* y, const float* next = nullptr) const {
    const std::int64_t ldc = split_.groups * layer_.outputs;
    IndirectProduct product{.rows = count,
                            .segments = segments_.count,
                            .length = segments_.length,
                            .left = left,
                            .columns = columns,
                            .addend = z,
                            .c = y,
                            .ldc = ldc,
                            .low = activation_.low,
                            .high = activation_.high};
    product.right = packed(operands, group, first);
    product.next = next;
    product.bias = operands.bias + group * bias_floats() + first;
    isa_->multiply(product);
    if (activation_.after.function == nullptr) return;
    if (columns == ldc) activation_.after(product.c, count * ldc);
    else
      for (std::int64_t i = 0; i < count; ++i) activation_.after(product.c + i * ldc, columns);
  }

  const IndirectProductIsa* isa_;
  WindowLayer layer_;
  ActivationPlan activation_;
  WindowSegments segments_;
  WindowPointers<float> windows_;
  std::int64_t depth_;
  ProductSplit split_;
  bool reads_ahead_;
  std::vector<float> zeros_;
  LayerOperands operands_;
};

}  // namespace

std::unique_ptr<LineKernel> make_window_product_f32(const ops::NodeView& view, WeightStore& store,
                                                    const WindowLayer& layer, std::string_view packing) {
  return std::make_unique<WindowProductF32>(view, store, layer, packing);
}

}  // namespace tessera::backends::cpu
