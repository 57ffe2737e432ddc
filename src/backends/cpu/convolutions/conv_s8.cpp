// Convolution and product of 8-bit data with signed 8-bit weights in integers, as an indirect product of bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/window_product.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/indirect_product_s8.h"
#include "backends/cpu/quantisation/quantised_result.h"
#include "ops/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;
using base::round_up;

constexpr double kChunkOperations = 8e6, kTileChunkOperations = 2e7;

// Below so many channels a window's taps are joined to lines: the inner loop, which takes four channels at a time,
// would be short, and each tap wants a pointer a row.
constexpr std::int64_t kFewChannels = kS8Group * WindowSegments::kFewChannels;

class QuantisedProduct final : public Kernel {
 public:
  QuantisedProduct(const ops::NodeView& view, WeightStore& store, const ChannelsLastGeometry& geometry,
                   std::int64_t groups, std::int64_t inputs, std::int64_t outputs, WeightStrides strides)
      : multiplier_(choose_multiplier(geometry, groups, inputs, outputs)),
        tiles_(multiplier_.tiles ? WindowTiles(geometry) : WindowTiles()),
        given_inputs_(inputs),
        given_width_(geometry.axes[2].input),
        inputs_(groups == 1 ? round_up(inputs, kS8Group) : inputs),
        geometry_(tiles_.of_copy(with_channels(
            geometry, spread_channels(inputs_, groups, 1,
                                      view.input(At::data).dtype == DType::i8 || inputs_ != inputs || tiles_.pads_lines,
                                      outputs)))),
        activation_(plan_activation(view)),
        outputs_(outputs),
        segments_(geometry_, inputs_, groups, kFewChannels),
        padded_(round_up(segments_.length, kS8Group)),
        segment_(padded_, 1, multiplier_.tiles),
        tile_rows_(multiplier_.tiles ? 2 * tiles_.half_rows : multiplier_.tile_rows),
        spaced_(multiplier_.tiles && padded_ == segments_.length && segment_.length % kTileBytes == 0 &&
                tiles_.evenly(geometry_)),
        windows_(geometry_, segments_, inputs_, padded_, tile_rows_),
        strides_(strides),
        signed_data_(view.input(At::data).dtype == DType::i8),
        result_(view, activation_, groups * lanes()) {
    depth_ = base::checked_multiply(segments_.count, segment_.length);
    split_ = {.rows = geometry_.batch * geometry_.outputs(),
              .columns = outputs_,
              .groups = groups,
              .tile_rows = tile_rows_,
              .tile_columns = kS8Columns};
    split_.segments = segments_.count;
    split_.segment_groups = segment_.length / kS8Group;
    split_.depth_step = segment_.overlaps && segments_.count == 1 ? split_.segment_groups : multiplier_.depth_step;
    split_.tile_registers = multiplier_.tiles;
    split_.rows_of_small_weights = true;
    split_.choose(2.0 * static_cast<double>(split_.rows) * static_cast<double>(outputs_) * static_cast<double>(depth_),
                  multiplier_.tiles ? kTileChunkOperations : kChunkOperations, kS8Columns * depth_,
                  geometry_.batch * geometry_.inputs() * inputs_, depth_);
    const Tensor& weights = *view.constant(At::weights);
    weights_ = store.find_or_pack(
        weights,
        fmt::format("indirect_product_s8_v2:{}:{}{}:{}", groups, segments_.whole_lines ? "lines" : "taps",
                    segment_.overlaps ? "_by_tiles" : "", strides.output),
        base::checked_add(panel_bytes(), groups * lanes() * 4 + 4),
        [&](const Tensor& contents, std::byte* to) { pack(contents, to); });
    for (std::int64_t g = 0; g < split_.groups; ++g) {
      for (std::int64_t j = 0; j < outputs_; ++j)
        result_.set(view, g * lanes() + j, g * outputs_ + j, sums()[g * lanes() + j]);
    }
    padding_.assign(static_cast<std::size_t>(padded_), result_.data_zero());
  }

  std::int64_t scratch_bytes() const override { return copies_data() ? copy_bytes() : 0; }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const auto* x = static_cast<const std::uint8_t*>(context.input(At::data).raw());
    const QuantisedOutput output(context);
    if (copies_data()) x = copy(context, x, reinterpret_cast<std::uint8_t*>(context.scratch()));
    context.parallel_for(split_.chunks(), split_.grain, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        split_.for_each_tile(chunk, [&](const ProductTile& tile) { run_tile(tile, x, output); });
      }
    });
  }

 private:
  // Data whose pixels are no whole groups of bytes is copied so that they are: windows need no copies of their own
  // then. The added bytes meet weights of zero. Signed bytes are copied as unsigned ones, pixels that should lie apart,
  // and lines with their padding.
  bool copies_data() const { return signed_data_ || spreads() || tiles_.pads_lines; }
  bool spreads() const { return geometry_.channels != split_.groups * given_inputs_; }
  std::int64_t copy_bytes() const {
    return base::checked_multiply(geometry_.batch * geometry_.inputs(), geometry_.channels);
  }
  const std::uint8_t* copy(const KernelContext& context, const std::uint8_t* x, std::uint8_t* to) const {
    const std::int64_t pixel_bytes = split_.groups * given_inputs_, width = geometry_.axes[2].input;
    if (!tiles_.pads_lines) {
      context.parallel_for(geometry_.batch * geometry_.inputs(), std::max<std::int64_t>(1, 65536 / geometry_.channels),
                           [&](std::int64_t begin, std::int64_t end) {
                             copy_pixels(x + begin * pixel_bytes, to + begin * geometry_.channels, end - begin);
                           });
      return to;
    }
    context.parallel_for(
        geometry_.batch * geometry_.inputs() / width, std::max<std::int64_t>(1, 65536 / (width * geometry_.channels)),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            std::uint8_t* pixel = std::fill_n(to + i * width * geometry_.channels, tiles_.left * geometry_.channels,
                                              static_cast<std::uint8_t>(result_.data_zero()));
            copy_pixels(x + i * given_width_ * pixel_bytes, pixel, given_width_);
            std::fill_n(pixel + given_width_ * geometry_.channels, tiles_.right * geometry_.channels,
                        static_cast<std::uint8_t>(result_.data_zero()));
          }
        });
    return to;
  }

  void copy_pixels(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) const {
    const std::int64_t given = split_.groups * given_inputs_, channels = geometry_.channels;
    if (signed_data_) return flip(from, to, count);
    if (!spreads()) {
      std::memcpy(to, from, static_cast<std::size_t>(count * channels));
      return;
    }
    if (given == 3 && channels == 4) return copy_pictures(from, to, count);
    for (std::int64_t i = 0; i < count; ++i, from += given, to += channels) {
      std::copy_n(from, given, to);
      std::fill_n(to + given, channels - given, std::uint8_t{0});
    }
  }

  // Pixels of three bytes to four; at least one.
  static void copy_pictures(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
    for (; count > 1; --count, from += 3, to += 4) {
      std::memcpy(to, from, 4);  // with a byte of the next pixel
      to[3] = 0;
    }
    std::copy_n(from, 3, to);
    to[3] = 0;
  }

  void run_tile(const ProductTile& tile, const std::uint8_t* x, const QuantisedOutput& output) const {
    const auto& [group, row, rows, column, columns, part, partial] = tile;
    const std::int64_t ldc = split_.groups * outputs_, offset = row * ldc + group * outputs_ + column,
                       lane = group * lanes() + column;
    IndirectProductS8 product{.rows = rows,
                              .tile_rows = tile_rows_,
                              .half_rows = tiles_.half_rows,
                              .segment_groups = segment_.overlaps ? padded_ / kS8Group : 0,
                              .segments = part.segments,
                              .groups = part.groups,
                              .columns = columns,
                              .ldc = ldc};
    if (spaced_)
      product.spaced = windows_.spaced_at(x + group * inputs_, row, tiles_.half_rows, padding_.data()) + part.segment;
    else product.left = windows_.at(x + group * inputs_, row, rows, padding_.data()) + part.segment * tile_rows_;
    product.skipped = part.group * kS8Group;
    const std::int8_t* weights = reinterpret_cast<const std::int8_t*>(weights_->data.get()) + group * lanes() * depth_;
    const WeightRange ahead = split_.ahead(tile, depth_);
    product.right = weights + column * depth_;
    product.ahead = weights + ahead.first;
    product.ahead_bytes = ahead.bytes;
    product.pairs_fit = pairs_fit();
    product.panel_groups = depth_ / kS8Group;
    product.first_group = part.segment * split_.segment_groups + part.group;
    product.begins = part.begins;
    product.ends = part.ends;
    if (auto* sums = split_.partial_sums<std::int32_t>(); sums != nullptr) product.partial = sums + partial;
    product.start = result_.start() + lane;
    product.factor = result_.factor() + lane;
    product.offset = result_.offset() + lane;
    product.low = result_.low();
    product.high = result_.high();
    product.zero = result_.zero();
    if (output.real != nullptr) product.real = output.real + offset;
    else product.quantised = output.quantised + offset;
    if (output.addend != nullptr) product.addend = output.addend + offset;
    product.sum = result_.sum();
    multiplier_.multiply(product);
    if (activation_.after.function == nullptr || !part.ends) return;
    for (std::int64_t i = 0; i < rows; ++i) activation_.after(product.real + i * ldc, columns);
  }

  void flip(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) const {
    const std::int64_t given = split_.groups * given_inputs_;
    for (std::int64_t i = 0; i < count; ++i, from += given, to += geometry_.channels) {
      std::transform(from, from + given, to,
                     [](std::uint8_t value) { return static_cast<std::uint8_t>(value ^ 0x80); });
      std::fill(to + given, to + geometry_.channels, std::uint8_t{0});
    }
  }

  static MultiplierS8 choose_multiplier(const ChannelsLastGeometry& geometry, std::int64_t groups, std::int64_t inputs,
                                        std::int64_t outputs) {
    constexpr std::int64_t kCopiedFor = 100;
    const bool vectors = gathers_for_little(geometry, groups == 1 ? round_up(inputs, kS8Group) : inputs, groups,
                                            kFewChannels, 1, outputs, kCopiedFor);
    return multiplier_s8(vectors ? 0 : geometry.batch * geometry.outputs());
  }

  std::int64_t lanes() const { return round_up(outputs_, kS8Lanes); }  // of a group
  std::int64_t panel_bytes() const { return base::checked_multiply(split_.groups * lanes(), depth_); }
  // Of each column's weights, behind the panels.
  const std::int32_t* sums() const {
    return reinterpret_cast<const std::int32_t*>(weights_->data.get() + panel_bytes());
  }
  // Behind the sums.
  bool pairs_fit() const { return sums()[split_.groups * lanes()] != 0; }

  // [group][panel][segment][four bytes of it][column][4], segments filled up with zeros.
  void pack(const Tensor& weights, std::byte* to) const {
    std::memset(to, 0, static_cast<std::size_t>(panel_bytes() + split_.groups * lanes() * 4));
    auto* sums = reinterpret_cast<std::int32_t*>(to + panel_bytes());
    const std::int8_t* from = weights.data<std::int8_t>();
    const std::int64_t taps_together = segments_.length / inputs_;  // in a segment
    for (std::int64_t g = 0; g < split_.groups; ++g) {
      for (std::int64_t j = 0; j < outputs_; ++j) {
        const std::int64_t first = j / kS8Columns * kS8Columns,
                           width = round_up(std::min(kS8Columns, outputs_ - first), kS8Lanes);
        auto* panel = reinterpret_cast<std::int8_t*>(to) + (g * lanes() + first) * depth_ + (j - first) * kS8Group;
        const std::int8_t* output = from + (g * outputs_ + j) * strides_.output;
        std::int32_t sum = 0;
        for (std::int64_t t = 0; t < geometry_.taps(); ++t) {
          const std::int64_t segment = t / taps_together * segment_.length, in_segment = t % taps_together * inputs_;
          for (std::int64_t c = 0; c < given_inputs_; ++c) {
            const std::int8_t value = output[c * strides_.channel + t * strides_.tap];
            sum += value;
            const std::int64_t at = segment + segment_.place(in_segment + c, padded_);
            panel[at / kS8Group * width * kS8Group + at % kS8Group] = value;
          }
        }
        sums[g * lanes() + j] = sum;
      }
    }
    sums[split_.groups * lanes()] = s8_pairs_fit(reinterpret_cast<const std::int8_t*>(to), panel_bytes());
  }

  MultiplierS8 multiplier_;
  WindowTiles tiles_;
  std::int64_t given_inputs_, given_width_,
      inputs_;                     // channels of a group, pixels of a line; channels as the product reads them
  ChannelsLastGeometry geometry_;  // of data as the product reads it
  ActivationPlan activation_;
  std::int64_t outputs_;  // of a group
  WindowSegments segments_;
  std::int64_t padded_;  // bytes of a segment in whole groups
  SegmentWeights segment_;
  std::int64_t tile_rows_;
  bool spaced_;  // rows of tiles are read where they lie, a constant distance apart
  WindowPointers<std::uint8_t> windows_;
  WeightStrides strides_;
  bool signed_data_;
  std::int64_t depth_ = 0;  // bytes of a row
  ProductSplit split_;
  QuantisedResult result_;
  std::vector<std::uint8_t> padding_;  // a segment of them
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_quantised_conv(const ops::NodeView& view) {
  if (std::string reason = reject_quantised_operands(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  return groups > 1 && view.input(At::weights).shape[0] / groups < kFewOutputs ? "few output channels a group" : "";
}

KernelPointer make_quantised_conv(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(At::weights).shape;
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  const std::int64_t groups = view.integer("group");
  return std::make_unique<QuantisedProduct>(view, weights, geometry, groups, w[1], w[0] / groups,
                                            WeightStrides{w[1] * geometry.taps(), geometry.taps(), 1});
}

std::string reject_quantised_linear(const ops::NodeView& view) {
  return reject_quantised_operands(view);
}

KernelPointer make_quantised_linear(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(At::weights).shape;
  return std::make_unique<QuantisedProduct>(view, weights, rows_geometry(view.input(At::data).shape), 1, w[0], w[1],
                                            WeightStrides{1, w[1], 0});
}

}  // namespace tessera::backends::cpu
