// Length: one kernel class, whose packing, copies and tiles share its plan.
// Indirect products of windows whose data and weights are rounded to bfloat16 (ops/products/rounded_product.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "backends/cpu/products/windows/window_product.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;
using Product = IndirectProductBf16;

constexpr std::int64_t kRoundedTogether = 2048;    // numbers
constexpr std::int64_t kCopiedBytes = 256 * 1024;  // of lines that are rounded or spread at a time; a line more or less

constexpr WindowFormat kFormatBf16{.element_bytes = 2,
                                   .group = Product::kGroup,
                                   .columns = Product::kColumns,
                                   .few_channels = WindowSegments::kFewChannels,
                                   .copied_for = 16,
                                   .chunk_operations = 4e6,
                                   .tile_chunk_operations = 1e7,
                                   .rows_of_small_weights = false};

class WindowProductBf16 final : public LineKernel {
 public:
  WindowProductBf16(const ops::NodeView& view, WeightStore& store, const WindowLayer& layer)
      : rounded_data_(view.input(0).dtype == DType::bf16),
        rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16),
        multiplier_(multiplier_bf16(rows_for_multiplier(layer, kFormatBf16))),
        activation_(plan_activation(view)),
        hard_swish_(multiplier_.has_hard_swish && activation_.is_hard_swish),
        plan_(plan_windows(layer, kFormatBf16, {multiplier_.tiles, multiplier_.tile_rows, multiplier_.depth_step},
                           !rounded_data_)),
        windows_(plan_.pointers<std::uint16_t>()),
        padding_(static_cast<std::size_t>(plan_.padded)),
        operands_(view, store,
                  {.name = fmt::format("indirect_product_bf16_v2:{}:{}{}:{}:{}x{}", layer.groups,
                                       plan_.segments.whole_lines ? "lines" : "taps",
                                       plan_.segment.overlaps ? "_by_tiles" : "", layer.strides.output, layer.inputs,
                                       layer.outputs) +
                           (layer.tap_order.empty() ? "" : fmt::format(":{}", fmt::join(layer.tap_order, "."))),
                   .floats = base::checked_multiply(layer.groups * lanes(), plan_.depth) / 2,
                   .pieces = layer.groups * panels(),
                   .pack = [this](const float* weights, float* to,
                                  std::int64_t piece) { pack(weights, reinterpret_cast<std::uint16_t*>(to), piece); }},
                  {.floats = layer.groups * lanes(),
                   .place = [this](const float* bias, float* to) { place_bias(bias, to); }}) {
    if (hard_swish_) activation_.after = {};
  }

  std::int64_t scratch_bytes() const override {
    return base::checked_add(operands_.scratch_bytes(),
                             copies_data() ? base::checked_multiply(plan_.data_elements(), 2) : 0);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const Operands operands = operands_.prepare(context, context.scratch());
    const std::uint16_t* x =
        copies_data() ? round_data(context) : static_cast<const std::uint16_t*>(context.input(0).raw());
    const void* z = context.has_input(3) ? context.input(3).raw() : nullptr;
    void* y = context.output(0).mutable_raw();
    context.parallel_for(plan_.split.chunks(), plan_.split.grain, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        plan_.split.for_each_tile(chunk, [&](const ProductTile& tile) {
          run_tile(operands, tile, rows_at(x + tile.group * plan_.inputs, tile.row, tile.rows), z, y);
        });
      }
    });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                 std::int64_t last) const override {
    const TileScope scope;
    if (!copies_data()) return run_some_lines(data, z, y, first, last);
    const std::int64_t together = std::max<std::int64_t>(
        1, kCopiedBytes / (plan_.geometry.axes[1].stride * plan_.geometry.axes[2].input * plan_.geometry.channels * 2));
    for (; first < last; first += together) run_some_lines(data, z, y, first, std::min(last, first + together));
  }

 private:
  using Operands = LayerOperands::Pointers;

  void run_some_lines(const ConstByteLines& data, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                      std::int64_t last) const {
    const std::int64_t width = plan_.geometry.axes[2].output;
    ProductSplit split = plan_.split;
    split.rows = (last - first) * width;
    split.row_chunks = split.panel_chunks = split.parts = 1;
    split.block_tiles = 0;
    const auto x = copies_data() ? round_lines(data, first, last) : lines_of_type<const std::uint16_t>(data);
    // The first pixel of a copy is that of the first window.
    const std::int64_t first_row = copies_data() && is_pointwise(plan_.geometry) ? 0 : first * width;
    const Operands operands = operands_.constants();
    const void* addend = z.data == nullptr ? nullptr : z.at(first);
    void* result = y.at(first);
    for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
      split.for_each_tile(chunk, [&](const ProductTile& tile) {
        run_tile(operands, tile,
                 rows_at(PictureLines<const std::uint16_t>{x.data + tile.group * plan_.inputs, x.elements, x.period},
                         first_row + tile.row, tile.rows),
                 addend, result);
      });
    }
  }

  // [group][lane], zero behind the outputs of a group.
  void place_bias(const float* bias, float* to) const {
    const std::int64_t outputs = plan_.layer.outputs;
    for (std::int64_t g = 0; g < plan_.layer.groups; ++g) std::copy_n(bias + g * outputs, outputs, to + g * lanes());
  }

  std::int64_t lanes() const { return round_up(plan_.layer.outputs, Product::kLanes); }  // of a group
  std::int64_t panels() const { return base::ceil_divide(plan_.layer.outputs, Product::kColumns); }
  // Whether data is copied: to be rounded, to have padded pixels (in whole pairs, whose added numbers meet zero
  // weights, or further apart), or lines with padding.
  bool copies_data() const { return !rounded_data_ || plan_.spreads() || plan_.tiles.pads_lines; }

  const std::uint16_t* round_data(KernelContext& context) const {
    auto* to = reinterpret_cast<std::uint16_t*>(context.scratch() + operands_.scratch_bytes());
    const Tensor& x = context.input(0);
    if (plan_.tiles.pads_lines) {
      const std::int64_t width = plan_.geometry.axes[2].input,
                         line_bytes =
                             plan_.given_width() * plan_.split.groups * plan_.layer.inputs * (rounded_data_ ? 2 : 4);
      context.parallel_for(plan_.geometry.batch * plan_.geometry.inputs() / width,
                           std::max<std::int64_t>(1, 32768 / (width * plan_.geometry.channels)),
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t i = begin; i < end; ++i)
                               copy_line(static_cast<const std::byte*>(x.raw()) + i * line_bytes,
                                         to + i * width * plan_.geometry.channels);
                           });
      return to;
    }
    if (!plan_.spreads()) {
      const float* from = x.data<float>();
      context.parallel_for(x.elements(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        round_to_bf16_row(from + begin, to + begin, end - begin);
      });
      return to;
    }
    context.parallel_for(
        plan_.geometry.batch * plan_.geometry.inputs(), std::max<std::int64_t>(1, 32768 / plan_.inputs),
        [&](std::int64_t begin, std::int64_t end) {
          spread_pixels(static_cast<const std::byte*>(x.raw()) + begin * plan_.layer.inputs * (rounded_data_ ? 2 : 4),
                        end - begin, to + begin * plan_.geometry.channels);
        });
    return to;
  }

  // Copies the lines of an image under the windows of the lines [first, last) of the result; valid until the next call
  // in this thread. The copies form a ring, or are contiguous if windows are single pixels.
  PictureLines<const std::uint16_t> round_lines(const ConstByteLines& x, std::int64_t first, std::int64_t last) const {
    const ops::WindowAxis& lines = plan_.geometry.axes[1];
    const std::int64_t begin = std::max<std::int64_t>(0, first * lines.stride - lines.pad_begin),
                       end = std::min(lines.input, (last - 1) * lines.stride - lines.pad_begin + lines.extent());
    const std::int64_t width = plan_.geometry.axes[2].input, numbers = width * plan_.geometry.channels,
                       period = std::max<std::int64_t>(1, end - begin);
    thread_local std::vector<std::uint16_t> copies;
    copies.resize(static_cast<std::size_t>(period * numbers));
    const bool side_by_side = is_pointwise(plan_.geometry);
    for (std::int64_t i = begin; i < end; ++i) {
      std::uint16_t* to = copies.data() + (side_by_side ? i - begin : i % period) * numbers;
      copy_line(x.at(i), to);
    }
    return {copies.data(), numbers, side_by_side ? 0 : period};
  }

  // Copies a line, rounded and padded.
  void copy_line(const std::byte* from, std::uint16_t* to) const {
    const std::int64_t numbers = plan_.given_width() * plan_.geometry.channels;
    to = std::fill_n(to, plan_.tiles.pads_lines ? plan_.tiles.left * plan_.geometry.channels : 0, std::uint16_t{0});
    if (plan_.spreads()) spread_pixels(from, plan_.given_width(), to);
    else if (rounded_data_) std::memcpy(to, from, static_cast<std::size_t>(numbers) * 2);
    else round_to_bf16_row(reinterpret_cast<const float*>(from), to, numbers);
    std::fill_n(to + numbers, plan_.tiles.pads_lines ? plan_.tiles.right * plan_.geometry.channels : 0,
                std::uint16_t{0});
  }

  // Copies pixels of plan_.layer.inputs channels, rounded and with zeros behind them.
  void spread_pixels(const std::byte* from, std::int64_t pixels, std::uint16_t* to) const {
    if (rounded_data_) return spread(reinterpret_cast<const std::uint16_t*>(from), pixels, to);
    if (plan_.layer.inputs == 3 && plan_.geometry.channels == 4 &&
        round_pictures(reinterpret_cast<const float*>(from), to, pixels))
      return;
    // Several at a time: rounding one pixel of few channels by itself would be slow.
    const std::int64_t together = std::max<std::int64_t>(1, kRoundedTogether / plan_.layer.inputs);
    thread_local std::vector<std::uint16_t> rounded;
    rounded.resize(static_cast<std::size_t>(together * plan_.layer.inputs));
    for (std::int64_t i = 0; i < pixels; i += together) {
      const std::int64_t count = std::min(together, pixels - i);
      round_to_bf16_row(reinterpret_cast<const float*>(from) + i * plan_.layer.inputs, rounded.data(),
                        count * plan_.layer.inputs);
      spread(rounded.data(), count, to + i * plan_.geometry.channels);
    }
  }

  // Copies pixels of plan_.layer.inputs channels, with zeros behind them.
  void spread(const std::uint16_t* from, std::int64_t pixels, std::uint16_t* to) const {
    const std::int64_t channels = plan_.geometry.channels;
    std::int64_t i = 0;
    if (plan_.layer.inputs == 3 && channels == 4 &&
        std::endian::native == std::endian::little) {  // images: copies a whole pixel, reads one number more
      for (; i + 1 < pixels; ++i, from += 3, to += 4) {
        std::uint64_t pixel;
        std::memcpy(&pixel, from, 8);
        pixel &= 0xFFFFFFFFFFFF;
        std::memcpy(to, &pixel, 8);
      }
    }
    for (; i < pixels; ++i, from += plan_.layer.inputs, to += channels) {
      std::copy_n(from, plan_.layer.inputs, to);
      std::fill(to + plan_.layer.inputs, to + channels, std::uint16_t{0});
    }
  }

  // The rows of a tile of A; exactly one is not null.
  struct Rows {
    const std::uint16_t* const* left = nullptr;
    const TileRun* spaced = nullptr;
  };
  template <typename Data>
  Rows rows_at(const Data& x, std::int64_t row, std::int64_t rows) const {
    if (plan_.spaced) return {.spaced = windows_.spaced_at(x, row, plan_.tiles.half_rows, padding_.data())};
    return {.left = windows_.at(x, row, rows, padding_.data())};
  }

  // z (or null) and y begin at the product's first row.
  void run_tile(const Operands& operands, const ProductTile& given, const Rows& left, const void* z, void* y) const {
    const auto& [group, row, rows, column, columns, part, partial] = given;
    const std::int64_t ldc = plan_.split.groups * plan_.layer.outputs,
                       offset = row * ldc + group * plan_.layer.outputs + column;
    Product product{.rows = rows,
                    .tile_rows = plan_.tile_rows,
                    .half_rows = plan_.tiles.half_rows,
                    .segment_groups = plan_.segment.overlaps ? plan_.padded / Product::kGroup : 0,
                    .segments = part.segments,
                    .groups = part.groups,
                    .columns = columns,
                    .low = activation_.low,
                    .high = activation_.high,
                    .hard_swish = hard_swish_};
    if (plan_.spaced) product.spaced = left.spaced + part.segment;
    else product.left = left.left + part.segment * plan_.tile_rows;
    product.skipped = part.group * Product::kGroup;
    const auto* weights = reinterpret_cast<const std::uint16_t*>(operands.weights) + group * lanes() * plan_.depth;
    const WeightRange ahead = plan_.split.ahead(given, plan_.depth * 2);
    product.right = weights + column * plan_.depth;
    product.ahead = weights + ahead.first / 2;
    product.ahead_bytes = ahead.bytes;
    product.panel_groups = plan_.depth / Product::kGroup;
    product.first_group = part.segment * plan_.split.segment_groups + part.group;
    product.begins = part.begins;
    product.ends = part.ends;
    if (auto* sums = plan_.split.partial_sums<float>(); sums != nullptr) product.partial = sums + partial;
    product.bias = operands.bias + group * lanes() + column;
    product.ldc = ldc;
    product.rounded_addend = rounded_addend_;
    if (z != nullptr)
      product.addend = rounded_addend_ ? static_cast<const void*>(static_cast<const std::uint16_t*>(z) + offset)
                                       : static_cast<const float*>(z) + offset;
    auto* rounded = static_cast<std::uint16_t*>(y) + offset;
    auto* floats = static_cast<float*>(y) + offset;
    product.rounded_c = rounded_result_ && activation_.after.function == nullptr;
    thread_local std::vector<float> tile;  // of results that are rounded after their activation
    if (product.rounded_c) {
      product.c = rounded;
    } else if (rounded_result_) {
      tile.resize(static_cast<std::size_t>(rows * ldc));
      product.c = floats = tile.data();
    } else {
      product.c = floats;
    }
    if (plan_.layer.places) return run_placed_tile(product, given, static_cast<std::byte*>(y));
    multiplier_.multiply(product);
    if (activation_.after.function == nullptr || !part.ends) return;
    const bool together = columns == ldc;  // whether rows are contiguous
    for (std::int64_t i = 0; i < (together ? 1 : rows); ++i) {
      const std::int64_t count = together ? rows * ldc : columns;
      activation_.after(floats + i * ldc, count);
      if (rounded_result_) round_to_bf16_row(floats + i * ldc, rounded + i * ldc, count);
    }
  }

  // Computes a tile whose results are not contiguous in a buffer and copies it row by row.
  void run_placed_tile(Product product, const ProductTile& tile, std::byte* y) const {
    thread_local std::vector<CacheLine> apart;
    apart.resize(static_cast<std::size_t>(base::ceil_divide(tile.rows * tile.columns, CacheLine::kFloats)));
    product.c = apart.data();
    product.ldc = tile.columns;
    multiplier_.multiply(product);
    if (!product.ends) return;
    const std::int64_t channels = plan_.split.groups * plan_.layer.outputs, bytes = rounded_result_ ? 2 : 4;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const std::int64_t place = plan_.layer.places->position(plan_.geometry, tile.row + i) * channels +
                                 tile.group * plan_.layer.outputs + tile.column;
      std::byte* to = y + place * bytes;
      float* row = apart.data()->floats + i * tile.columns;
      if (product.rounded_c) {
        std::memcpy(to, reinterpret_cast<const std::uint16_t*>(apart.data()) + i * tile.columns,
                    static_cast<std::size_t>(tile.columns) * 2);
        continue;
      }
      if (activation_.after.function != nullptr) activation_.after(row, tile.columns);
      if (rounded_result_) round_to_bf16_row(row, reinterpret_cast<std::uint16_t*>(to), tile.columns);
      else std::memcpy(to, row, static_cast<std::size_t>(tile.columns) * 4);
    }
  }

  // Transposes the weights of some input channels of a group for some outputs to [channel][tap][output], and returns
  // the distance between channels there.
  std::int64_t turn(const float* weights, std::int64_t group, std::int64_t first, std::int64_t columns,
                    std::int64_t channel, std::int64_t count, std::vector<float>& to) const {
    const WindowLayer& layer = plan_.layer;
    const bool is_transposed = !layer.tap_order.empty();
    const std::int64_t taps = is_transposed ? layer.weight_taps : plan_.geometry.taps();
    to.resize(static_cast<std::size_t>(kPackedTogether * taps * Product::kColumns));
    const float* from = weights + group * layer.inputs * layer.outputs * taps + first * layer.strides.output +
                        channel * layer.strides.channel;
    if (is_transposed) {
      for (std::int64_t i = 0; i < count; ++i)
        gemm_f32_transpose(from + i * layer.strides.channel, layer.strides.output, 1, columns, taps,
                           to.data() + i * taps * columns, columns);
    } else {
      gemm_f32_transpose(from, layer.strides.output, taps == 1 ? layer.strides.channel : 1, columns, count * taps,
                         to.data(), columns);
    }
    return taps * columns;
  }

  // [group][panel][segment][pair][column][2], segments padded with zeros; a piece is a panel of a group.
  void pack(const float* weights, std::uint16_t* packed, std::int64_t piece) const {
    const std::int64_t taps = plan_.geometry.taps(),
                       taps_together = plan_.segments.length / plan_.inputs;  // in a segment
    const std::int64_t group = piece / panels(), first = piece % panels() * Product::kColumns;
    thread_local std::vector<float> turned;
    const std::int64_t columns = std::min(Product::kColumns, plan_.layer.outputs - first);
    std::uint16_t* panel = packed + (group * lanes() + first) * plan_.depth;
    std::memset(panel, 0, static_cast<std::size_t>(round_up(columns, Product::kLanes) * plan_.depth * 2));
    for (std::int64_t c = 0; c < plan_.layer.inputs; c += kPackedTogether) {
      const std::int64_t count = std::min(kPackedTogether, plan_.layer.inputs - c);
      const std::int64_t distance = turn(weights, group, first, columns, c, count, turned);
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t at = t % taps_together * plan_.inputs + c;
        const std::int64_t tap = plan_.layer.tap_order.empty() ? t : plan_.layer.tap_order[static_cast<std::size_t>(t)];
        for (std::int64_t i = 0; i < count;) {
          i += put_rows(turned.data() + tap * columns + i * distance, i + 1 < count ? distance : 0, columns,
                        t / taps_together * plan_.segment.length + plan_.segment.place(at + i, plan_.padded), panel);
        }
      }
    }
  }

  // Rounds a row of weights to its place in the panel; together with the next row, `step` further on, if they are a
  // pair. Returns the number of rows.
  static std::int64_t put_rows(const float* row, std::int64_t step, std::int64_t columns, std::int64_t at,
                               std::uint16_t* panel) {
    static_assert(Product::kGroup == 2);
    const std::int64_t width = round_up(columns, Product::kLanes);
    std::uint16_t* to = panel + at / 2 * width * 2;
    if (at % 2 == 0 && step != 0) {
      to_bf16_pairs(row, row + step, to, columns);
      return 2;
    }
    std::uint16_t rounded[Product::kColumns];
    to_bf16_row(row, rounded, columns);
    for (std::int64_t j = 0; j < columns; ++j) to[2 * j + at % 2] = rounded[j];
    return 1;
  }

  bool rounded_data_, rounded_addend_, rounded_result_;
  MultiplierBf16 multiplier_;
  ActivationPlan activation_;
  bool hard_swish_;  // in registers, instead of activation_.after
  WindowPlan plan_;
  WindowPointers<std::uint16_t> windows_;
  std::vector<std::uint16_t> padding_;  // a segment of zeros
  LayerOperands operands_;
};

}  // namespace

std::unique_ptr<LineKernel> make_window_product_bf16(const ops::NodeView& view, WeightStore& store,
                                                     const WindowLayer& layer) {
  return std::make_unique<WindowProductBf16>(view, store, layer);
}

std::string reject_operands_bf16(const ops::NodeView& view) {
  if (!view.has_attribute("precision")) return "does not ask for bf16";
  if (view.input(1).dtype != DType::f32) return "weights other than f32";
  if (view.input(1).elements() == 0) return "no weights";
  return reject_activation(view);
}

}  // namespace tessera::backends::cpu
