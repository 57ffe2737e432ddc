// Convolution and product whose data and weights are rounded to bfloat16 (ops/rounded_product.h), as an indirect
// product of these.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/convolutions/window_product.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/indirect_product_bf16.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;
using Product = IndirectProductBf16;

constexpr double kChunkOperations = 4e6, kTileChunkOperations = 1e7;
constexpr std::int64_t kRoundedTogether = 2048;    // numbers
constexpr std::int64_t kCopiedBytes = 256 * 1024;  // of lines that are rounded or spread at a time; a line more or less

class Bf16Product final : public Kernel, public LineConv {
 public:
  Bf16Product(const ops::NodeView& view, WeightStore& store, const ChannelsLastGeometry& geometry, std::int64_t groups,
              std::int64_t inputs, std::int64_t outputs, WeightStrides strides)
      : multiplier_(choose_multiplier(geometry, groups, inputs, outputs)),
        tiles_(multiplier_.tiles ? WindowTiles(geometry) : WindowTiles()),
        given_inputs_(inputs),
        given_width_(geometry.axes[2].input),
        inputs_(groups == 1 ? round_up(inputs, Product::kGroup) : inputs),
        geometry_(tiles_.of_copy(with_channels(
            geometry,
            spread_channels(inputs_, groups, 2,
                            view.input(0).dtype != DType::bf16 || inputs_ != inputs || tiles_.pads_lines, outputs)))),
        activation_(plan_activation(view)),
        outputs_(outputs),
        segments_(geometry_, inputs_, groups),
        padded_(round_up(segments_.length, Product::kGroup)),
        segment_(padded_, 2, multiplier_.tiles),
        tile_rows_(multiplier_.tiles ? 2 * tiles_.half_rows : multiplier_.tile_rows),
        spaced_(multiplier_.tiles && padded_ == segments_.length && segment_.length * 2 % kTileBytes == 0 &&
                tiles_.evenly(geometry_)),
        windows_(geometry_, segments_, inputs_, padded_, tile_rows_),
        strides_(strides),
        rounded_data_(view.input(0).dtype == DType::bf16),
        rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16) {
    hard_swish_ =
        multiplier_.has_hard_swish && view.has_attribute("activation") && view.text("activation") == "HardSwish";
    if (hard_swish_) activation_.after = {};
    depth_ = base::checked_multiply(segments_.count, segment_.length);
    split_ = {.rows = geometry_.batch * geometry_.outputs(),
              .columns = outputs_,
              .groups = groups,
              .tile_rows = tile_rows_,
              .tile_columns = Product::kColumns};
    split_.segments = segments_.count;
    split_.segment_groups = segment_.length / Product::kGroup;
    split_.depth_step = segment_.overlaps && segments_.count == 1 ? split_.segment_groups : multiplier_.depth_step;
    split_.tile_registers = multiplier_.tiles;
    split_.choose(2.0 * static_cast<double>(split_.rows) * static_cast<double>(outputs_) * static_cast<double>(depth_),
                  multiplier_.tiles ? kTileChunkOperations : kChunkOperations, Product::kColumns * depth_ * 2,
                  base::checked_multiply(geometry_.batch * geometry_.inputs(), inputs_ * 2), depth_ * 2);
    padding_.assign(static_cast<std::size_t>(padded_), 0);
    bias_.assign(static_cast<std::size_t>(groups * lanes()), 0.0f);
    if (view.has_input(2)) {
      const float* bias = view.constant(2)->data<float>();
      for (std::int64_t g = 0; g < groups; ++g) std::copy_n(bias + g * outputs_, outputs_, bias_.data() + g * lanes());
    }
    const Tensor& weights = *view.constant(1);
    weights_ = store.find_or_pack(
        weights,
        fmt::format("indirect_product_bf16_v2:{}:{}{}:{}:{}x{}", groups, segments_.whole_lines ? "lines" : "taps",
                    segment_.overlaps ? "_by_tiles" : "", strides.output, inputs, outputs),
        base::checked_multiply(base::checked_multiply(groups * lanes(), depth_), 2),
        [&](const Tensor& contents, std::byte* to) { pack(contents, reinterpret_cast<std::uint16_t*>(to)); });
  }

  std::int64_t scratch_bytes() const override { return copies_data() ? base::checked_multiply(data_elements(), 2) : 0; }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const std::uint16_t* x =
        copies_data() ? round_data(context) : static_cast<const std::uint16_t*>(context.input(0).raw());
    const void* z = context.has_input(3) ? context.input(3).raw() : nullptr;
    void* y = context.output(0).mutable_raw();
    context.parallel_for(split_.chunks(), split_.grain, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        split_.for_each_tile(chunk, [&](const ProductTile& tile) {
          run_tile(tile, rows_at(x + tile.group * inputs_, tile.row, tile.rows), z, y);
        });
      }
    });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                 std::int64_t last) const override {
    const TileScope scope;
    if (!copies_data()) return run_some_lines(data, z, y, first, last);
    const std::int64_t together = std::max<std::int64_t>(
        1, kCopiedBytes / (geometry_.axes[1].stride * geometry_.axes[2].input * geometry_.channels * 2));
    for (; first < last; first += together) run_some_lines(data, z, y, first, std::min(last, first + together));
  }

 private:
  void run_some_lines(const ConstByteLines& data, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                      std::int64_t last) const {
    const std::int64_t width = geometry_.axes[2].output;
    ProductSplit split = split_;
    split.rows = (last - first) * width;
    split.row_chunks = split.panel_chunks = split.parts = 1;
    split.block_tiles = 0;
    const auto x = copies_data() ? round_lines(data, first, last) : lines_of_type<const std::uint16_t>(data);
    // Of pixels that were copied the first is that of the first window.
    const std::int64_t first_row = copies_data() && is_pointwise(geometry_) ? 0 : first * width;
    const void* addend = z.data == nullptr ? nullptr : z.at(first);
    void* result = y.at(first);
    for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
      split.for_each_tile(chunk, [&](const ProductTile& tile) {
        run_tile(tile,
                 rows_at(PictureLines<const std::uint16_t>{x.data + tile.group * inputs_, x.elements, x.period},
                         first_row + tile.row, tile.rows),
                 addend, result);
      });
    }
  }

  static MultiplierBf16 choose_multiplier(const ChannelsLastGeometry& geometry, std::int64_t groups,
                                          std::int64_t inputs, std::int64_t outputs) {
    constexpr std::int64_t kCopiedFor = 16;
    const bool vectors = gathers_for_little(geometry, groups == 1 ? round_up(inputs, Product::kGroup) : inputs, groups,
                                            WindowSegments::kFewChannels, 2, outputs, kCopiedFor);
    return multiplier_bf16(vectors ? 0 : geometry.batch * geometry.outputs());
  }

  std::int64_t lanes() const { return round_up(outputs_, Product::kLanes); }  // of a group
  std::int64_t data_elements() const {
    return base::checked_multiply(geometry_.batch * geometry_.inputs(), geometry_.channels);
  }
  // Whether data must be rounded first, or pixels filled up: to whole pairs, whose added numbers meet weights of zero,
  // or to lie apart; or lines.
  bool copies_data() const { return !rounded_data_ || spreads() || tiles_.pads_lines; }
  bool spreads() const { return geometry_.channels != split_.groups * given_inputs_; }

  const std::uint16_t* round_data(KernelContext& context) const {
    auto* to = reinterpret_cast<std::uint16_t*>(context.scratch());
    const Tensor& x = context.input(0);
    if (tiles_.pads_lines) {
      const std::int64_t width = geometry_.axes[2].input,
                         line_bytes = given_width_ * split_.groups * given_inputs_ * (rounded_data_ ? 2 : 4);
      context.parallel_for(
          geometry_.batch * geometry_.inputs() / width, std::max<std::int64_t>(1, 32768 / (width * geometry_.channels)),
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
              copy_line(static_cast<const std::byte*>(x.raw()) + i * line_bytes, to + i * width * geometry_.channels);
          });
      return to;
    }
    if (!spreads()) {
      const float* from = x.data<float>();
      context.parallel_for(x.elements(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        round_to_bf16_row(from + begin, to + begin, end - begin);
      });
      return to;
    }
    context.parallel_for(geometry_.batch * geometry_.inputs(), std::max<std::int64_t>(1, 32768 / inputs_),
                         [&](std::int64_t begin, std::int64_t end) {
                           spread_pixels(
                               static_cast<const std::byte*>(x.raw()) + begin * given_inputs_ * (rounded_data_ ? 2 : 4),
                               end - begin, to + begin * geometry_.channels);
                         });
    return to;
  }

  // Copies of the lines of a picture under the windows of the lines [first, last) of the result, valid until the next
  // call in this thread. They lie as in a ring, or side by side where windows are the pixels.
  PictureLines<const std::uint16_t> round_lines(const ConstByteLines& x, std::int64_t first, std::int64_t last) const {
    const ops::WindowAxis& lines = geometry_.axes[1];
    const std::int64_t begin = std::max<std::int64_t>(0, first * lines.stride - lines.pad_begin),
                       end = std::min(lines.input, (last - 1) * lines.stride - lines.pad_begin + lines.extent());
    const std::int64_t width = geometry_.axes[2].input, numbers = width * geometry_.channels,
                       period = std::max<std::int64_t>(1, end - begin);
    thread_local std::vector<std::uint16_t> copies;
    copies.resize(static_cast<std::size_t>(period * numbers));
    const bool side_by_side = is_pointwise(geometry_);
    for (std::int64_t i = begin; i < end; ++i) {
      std::uint16_t* to = copies.data() + (side_by_side ? i - begin : i % period) * numbers;
      copy_line(x.at(i), to);
    }
    return {copies.data(), numbers, side_by_side ? 0 : period};
  }

  // A line, rounded and filled up.
  void copy_line(const std::byte* from, std::uint16_t* to) const {
    const std::int64_t numbers = given_width_ * geometry_.channels;
    to = std::fill_n(to, tiles_.pads_lines ? tiles_.left * geometry_.channels : 0, std::uint16_t{0});
    if (spreads()) spread_pixels(from, given_width_, to);
    else if (rounded_data_) std::memcpy(to, from, static_cast<std::size_t>(numbers) * 2);
    else round_to_bf16_row(reinterpret_cast<const float*>(from), to, numbers);
    std::fill_n(to + numbers, tiles_.pads_lines ? tiles_.right * geometry_.channels : 0, std::uint16_t{0});
  }

  // Pixels of given_inputs_ channels, rounded and with zeros behind them.
  void spread_pixels(const std::byte* from, std::int64_t pixels, std::uint16_t* to) const {
    if (rounded_data_) return spread(reinterpret_cast<const std::uint16_t*>(from), pixels, to);
    if (given_inputs_ == 3 && geometry_.channels == 4 &&
        round_pictures(reinterpret_cast<const float*>(from), to, pixels))
      return;
    // Some at a time: rounding a pixel of few channels by itself would be slow.
    const std::int64_t together = std::max<std::int64_t>(1, kRoundedTogether / given_inputs_);
    thread_local std::vector<std::uint16_t> rounded;
    rounded.resize(static_cast<std::size_t>(together * given_inputs_));
    for (std::int64_t i = 0; i < pixels; i += together) {
      const std::int64_t count = std::min(together, pixels - i);
      round_to_bf16_row(reinterpret_cast<const float*>(from) + i * given_inputs_, rounded.data(),
                        count * given_inputs_);
      spread(rounded.data(), count, to + i * geometry_.channels);
    }
  }

  // Pixels of given_inputs_ channels with zeros behind them.
  void spread(const std::uint16_t* from, std::int64_t pixels, std::uint16_t* to) const {
    const std::int64_t channels = geometry_.channels;
    std::int64_t i = 0;
    if (given_inputs_ == 3 && channels == 4 &&
        std::endian::native == std::endian::little) {  // pictures: a pixel at once, reading one number more
      for (; i + 1 < pixels; ++i, from += 3, to += 4) {
        std::uint64_t pixel;
        std::memcpy(&pixel, from, 8);
        pixel &= 0xFFFFFFFFFFFF;
        std::memcpy(to, &pixel, 8);
      }
    }
    for (; i < pixels; ++i, from += given_inputs_, to += channels) {
      std::copy_n(from, given_inputs_, to);
      std::fill(to + given_inputs_, to + channels, std::uint16_t{0});
    }
  }

  // A tile's rows; one of both.
  struct Rows {
    const std::uint16_t* const* left = nullptr;
    const TileRun* spaced = nullptr;
  };
  template <typename Data>
  Rows rows_at(const Data& x, std::int64_t row, std::int64_t rows) const {
    if (spaced_) return {.spaced = windows_.spaced_at(x, row, tiles_.half_rows, padding_.data())};
    return {.left = windows_.at(x, row, rows, padding_.data())};
  }

  // z (or null) and y begin where the product's first row does.
  void run_tile(const ProductTile& given, const Rows& left, const void* z, void* y) const {
    const auto& [group, row, rows, column, columns, part, partial] = given;
    const std::int64_t ldc = split_.groups * outputs_, offset = row * ldc + group * outputs_ + column;
    Product product{.rows = rows,
                    .tile_rows = tile_rows_,
                    .half_rows = tiles_.half_rows,
                    .segment_groups = segment_.overlaps ? padded_ / Product::kGroup : 0,
                    .segments = part.segments,
                    .groups = part.groups,
                    .columns = columns,
                    .low = activation_.low,
                    .high = activation_.high,
                    .hard_swish = hard_swish_};
    if (spaced_) product.spaced = left.spaced + part.segment;
    else product.left = left.left + part.segment * tile_rows_;
    product.skipped = part.group * Product::kGroup;
    const auto* weights = reinterpret_cast<const std::uint16_t*>(weights_->data.get()) + group * lanes() * depth_;
    const WeightRange ahead = split_.ahead(given, depth_ * 2);
    product.right = weights + column * depth_;
    product.ahead = weights + ahead.first / 2;
    product.ahead_bytes = ahead.bytes;
    product.panel_groups = depth_ / Product::kGroup;
    product.first_group = part.segment * split_.segment_groups + part.group;
    product.begins = part.begins;
    product.ends = part.ends;
    if (auto* sums = split_.partial_sums<float>(); sums != nullptr) product.partial = sums + partial;
    product.bias = bias_.data() + group * lanes() + column;
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
    multiplier_.multiply(product);
    if (activation_.after.function == nullptr || !part.ends) return;
    const bool together = columns == ldc;  // rows that lie side by side
    for (std::int64_t i = 0; i < (together ? 1 : rows); ++i) {
      const std::int64_t count = together ? rows * ldc : columns;
      activation_.after(floats + i * ldc, count);
      if (rounded_result_) round_to_bf16_row(floats + i * ldc, rounded + i * ldc, count);
    }
  }

  // [group][panel][segment][pair of it][column][2], segments filled up with zeros.
  void pack(const Tensor& weights, std::uint16_t* packed) const {
    std::memset(packed, 0, static_cast<std::size_t>(split_.groups * lanes() * depth_ * 2));
    const std::int64_t taps = geometry_.taps(), taps_together = segments_.length / inputs_;  // in a segment
    const std::int64_t most_rows = kPackedTogether * taps;
    std::vector<float> turned(static_cast<std::size_t>(most_rows * Product::kColumns));
    std::vector<std::uint16_t> rounded(turned.size());
    for (std::int64_t g = 0; g < split_.groups; ++g) {
      for (std::int64_t first = 0; first < outputs_; first += Product::kColumns) {
        const std::int64_t columns = std::min(Product::kColumns, outputs_ - first);
        std::uint16_t* panel = packed + (g * lanes() + first) * depth_;
        for (std::int64_t c = 0; c < given_inputs_; c += kPackedTogether) {
          const std::int64_t count = std::min(kPackedTogether, given_inputs_ - c);
          const float* from = weights.data<float>() + (g * outputs_ + first) * strides_.output + c * strides_.channel;
          gemm_f32_transpose(from, strides_.output, taps == 1 ? strides_.channel : 1, columns, count * taps,
                             turned.data(), columns);
          to_bf16_row(turned.data(), rounded.data(), count * taps * columns);
          for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t at = t % taps_together * inputs_ + c;
            for (std::int64_t i = 0; i < count;) {
              i += put_rows(rounded.data() + (i * taps + t) * columns, i + 1 < count ? taps * columns : 0, columns,
                            t / taps_together * segment_.length + segment_.place(at + i, padded_), panel);
            }
          }
        }
      }
    }
  }

  // Puts a row of weights where the panel has it, with the next one, `step` further on, when they are a pair. Returns
  // how many.
  static std::int64_t put_rows(const std::uint16_t* row, std::int64_t step, std::int64_t columns, std::int64_t at,
                               std::uint16_t* panel) {
    static_assert(Product::kGroup == 2);
    const std::int64_t width = round_up(columns, Product::kLanes);
    std::uint16_t* to = panel + at / 2 * width * 2;
    if (at % 2 != 0 || step == 0) {
      for (std::int64_t j = 0; j < columns; ++j) to[2 * j + at % 2] = row[j];
      return 1;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      to[2 * j] = row[j];
      to[2 * j + 1] = row[step + j];
    }
    return 2;
  }

  MultiplierBf16 multiplier_;
  WindowTiles tiles_;
  std::int64_t given_inputs_, given_width_,
      inputs_;                     // channels of a group, pixels of a line; channels as the product reads them
  ChannelsLastGeometry geometry_;  // of data as the product reads it
  ActivationPlan activation_;
  bool hard_swish_ = false;  // in registers, instead
  std::int64_t outputs_;     // of a group
  WindowSegments segments_;
  std::int64_t padded_;  // length of a segment in whole pairs
  SegmentWeights segment_;
  std::int64_t tile_rows_;
  bool spaced_;  // rows of tiles are read where they lie, a constant distance apart
  WindowPointers<std::uint16_t> windows_;
  WeightStrides strides_;
  bool rounded_data_, rounded_addend_, rounded_result_;
  std::int64_t depth_ = 0;
  ProductSplit split_;
  std::vector<std::uint16_t> padding_;
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_bf16_operands(const ops::NodeView& view) {
  if (!view.has_attribute("precision")) return "does not ask for bf16";
  if (view.input(1).dtype != DType::f32) return "weights other than f32";
  if (view.constant(1) == nullptr || (view.has_input(2) && view.constant(2) == nullptr))
    return "weights or bias are no constants";
  if (view.constant(1)->elements() == 0) return "no weights";
  return reject_activation(view);
}

std::string reject_bf16_conv(const ops::NodeView& view) {
  if (std::string reason = reject_bf16_operands(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  return groups > 1 && view.input(1).shape[0] / groups < kFewOutputs ? "few output channels a group" : "";
}

namespace {

std::unique_ptr<Bf16Product> make_windows_product(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(1).shape;
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  const std::int64_t groups = view.integer("group");
  return std::make_unique<Bf16Product>(view, weights, geometry, groups, w[1], w[0] / groups,
                                       WeightStrides{w[1] * geometry.taps(), geometry.taps(), 1});
}

}  // namespace

KernelPointer make_bf16_conv(const ops::NodeView& view, WeightStore& weights) {
  return make_windows_product(view, weights);
}
std::unique_ptr<LineConv> make_bf16_line_conv(const ops::NodeView& view, WeightStore& weights) {
  return make_windows_product(view, weights);
}

std::string reject_bf16_linear(const ops::NodeView& view) {
  return reject_bf16_operands(view);
}

KernelPointer make_bf16_linear(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(1).shape;
  const bool transposed = view.integer("transB") != 0;
  const std::int64_t inputs = w[transposed ? 1 : 0], outputs = w[transposed ? 0 : 1];
  Shape rows = view.output(0).shape;
  rows.back() = inputs;
  return std::make_unique<Bf16Product>(view, weights, rows_geometry(rows), 1, inputs, outputs,
                                       transposed ? WeightStrides{inputs, 1, 0} : WeightStrides{1, outputs, 0});
}

}  // namespace tessera::backends::cpu
