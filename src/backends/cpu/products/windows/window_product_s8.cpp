// Indirect products of windows of 8-bit data with int8 weights, summed in integers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/result_s8.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "backends/cpu/products/windows/window_product.h"
#include "backends/cpu/products/windows/window_sums_s8.h"
#include "base/numbers/checked.h"
#include "ops/quantised/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;
using base::round_up;

constexpr WindowFormat kFormatS8{.element_bytes = 1,
                                 .group = kS8Group,
                                 .columns = kS8Columns,
                                 // With fewer channels, the taps of a window's line are joined to one segment:
                                 // otherwise the inner loop, which takes four channels at a time, would be short, and
                                 // each tap needs a pointer per row.
                                 .few_channels = kS8Group * WindowSegments::kFewChannels,
                                 .copied_for = 100,
                                 .chunk_operations = 8e6,
                                 .tile_chunk_operations = 2e7,
                                 .rows_of_small_weights = true};

class WindowProductS8 final : public Kernel {
 public:
  WindowProductS8(const ops::NodeView& view, WeightStore& store, const WindowLayer& layer)
      : signed_data_(view.input(At::data).dtype == DType::i8),
        multiplier_(multiplier_s8(rows_for_multiplier(layer, kFormatS8))),
        activation_(plan_activation(view)),
        plan_(plan_windows(layer, kFormatS8, {multiplier_.tiles, multiplier_.tile_rows, multiplier_.depth_step},
                           signed_data_)),
        windows_(plan_.pointers<std::uint8_t>()),
        result_(view, activation_, layer.groups * lanes()),
        padding_(static_cast<std::size_t>(result_.varies() ? 0 : plan_.padded), result_.data_zero()) {
    if (result_.shift() != nullptr) window_sums_.emplace(layer.geometry, layer.groups);
    const std::string packing =
        fmt::format("indirect_product_s8_v2:{}:{}{}:{}", layer.groups, plan_.segments.whole_lines ? "lines" : "taps",
                    plan_.segment.overlaps ? "_by_tiles" : "", layer.strides.output);
    weights_ = store.find_or_pack(*view.constant(At::weights), packing,
                                  base::checked_add(panel_bytes(), layer.groups * lanes() * 4 + 4),
                                  [&](const Tensor& contents, std::byte* to) { pack(contents, to); });
    for (std::int64_t g = 0; g < layer.groups; ++g) {
      for (std::int64_t j = 0; j < layer.outputs; ++j)
        result_.set(view, g * lanes() + j, g * layer.outputs + j, sums()[g * lanes() + j]);
    }
  }

  std::int64_t scratch_bytes() const override {
    return base::checked_add(copied_bytes() + result_.run_bytes() + padding_bytes(),
                             window_sums_ ? base::checked_multiply(window_sums_->elements(), 4) : 0);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const auto* given = static_cast<const std::uint8_t*>(context.input(At::data).raw());
    auto* scratch = reinterpret_cast<std::byte*>(context.scratch());
    Run r{.x = given, .padding = padding_.data(), .output = OutputS8(context)};
    r.terms = result_.terms(context, scratch + copied_bytes());
    if (result_.varies()) {
      auto* padding = reinterpret_cast<std::uint8_t*>(scratch + copied_bytes() + result_.run_bytes());
      std::fill_n(padding, plan_.padded, r.terms.data_zero);
      r.padding = padding;
    }
    if (window_sums_) {
      auto* sums = reinterpret_cast<std::int32_t*>(scratch + copied_bytes() + result_.run_bytes() + padding_bytes());
      r.window_sums = window_sums_->run(context, given, r.terms.data_zero, sums);
    }
    if (copies_data()) r.x = copy(context, given, reinterpret_cast<std::uint8_t*>(scratch), r.terms.data_zero);
    context.parallel_for(plan_.split.chunks(), plan_.split.grain, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        plan_.split.for_each_tile(chunk, [&](const ProductTile& tile) { run_tile(tile, r); });
      }
    });
  }

 private:
  // The operands and results of a run.
  struct Run {
    const std::uint8_t* x;
    const std::uint8_t* padding;
    OutputS8 output;
    TermsS8 terms = {};
    const std::int32_t* window_sums = nullptr;  // [group][row], or null
  };

  // Working memory holds, in this order, the copy of the data, the terms of the run, its padding and the sums of
  // windows.
  std::int64_t copied_bytes() const { return copies_data() ? round_up(plan_.data_elements(), std::int64_t{64}) : 0; }
  std::int64_t padding_bytes() const { return result_.varies() ? round_up(plan_.padded, std::int64_t{64}) : 0; }

  // Whether data is copied: signed bytes to unsigned ones, pixels that should lie further apart, lines with their
  // padding, and pixels that are not whole groups of bytes, so that windows need no copies; the added bytes meet zero
  // weights.
  bool copies_data() const { return signed_data_ || plan_.spreads() || plan_.tiles.pads_lines; }
  const std::uint8_t* copy(const KernelContext& context, const std::uint8_t* x, std::uint8_t* to,
                           std::uint8_t zero) const {
    const std::int64_t pixel_bytes = plan_.split.groups * plan_.layer.inputs, width = plan_.geometry.axes[2].input;
    if (!plan_.tiles.pads_lines) {
      context.parallel_for(plan_.geometry.batch * plan_.geometry.inputs(),
                           std::max<std::int64_t>(1, 65536 / plan_.geometry.channels),
                           [&](std::int64_t begin, std::int64_t end) {
                             copy_pixels(x + begin * pixel_bytes, to + begin * plan_.geometry.channels, end - begin);
                           });
      return to;
    }
    context.parallel_for(plan_.geometry.batch * plan_.geometry.inputs() / width,
                         std::max<std::int64_t>(1, 65536 / (width * plan_.geometry.channels)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             std::uint8_t* pixel = std::fill_n(to + i * width * plan_.geometry.channels,
                                                               plan_.tiles.left * plan_.geometry.channels, zero);
                             copy_pixels(x + i * plan_.given_width() * pixel_bytes, pixel, plan_.given_width());
                             std::fill_n(pixel + plan_.given_width() * plan_.geometry.channels,
                                         plan_.tiles.right * plan_.geometry.channels, zero);
                           }
                         });
    return to;
  }

  void copy_pixels(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) const {
    const std::int64_t given = plan_.split.groups * plan_.layer.inputs, channels = plan_.geometry.channels;
    if (signed_data_) return flip(from, to, count);
    if (!plan_.spreads()) {
      std::memcpy(to, from, static_cast<std::size_t>(count * channels));
      return;
    }
    if (given == 3 && channels == 4) return copy_pictures(from, to, count);
    for (std::int64_t i = 0; i < count; ++i, from += given, to += channels) {
      std::copy_n(from, given, to);
      std::fill_n(to + given, channels - given, std::uint8_t{0});
    }
  }

  // Copies pixels of three bytes to pixels of four; at least one.
  static void copy_pictures(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
    for (; count > 1; --count, from += 3, to += 4) {
      std::memcpy(to, from, 4);  // with a byte of the next pixel
      to[3] = 0;
    }
    std::copy_n(from, 3, to);
    to[3] = 0;
  }

  void run_tile(const ProductTile& tile, const Run& r) const {
    const auto& [group, row, rows, column, columns, part, partial] = tile;
    const std::int64_t ldc = plan_.split.groups * plan_.layer.outputs,
                       offset = row * ldc + group * plan_.layer.outputs + column, lane = group * lanes() + column;
    IndirectProductS8 product{.rows = rows,
                              .tile_rows = plan_.tile_rows,
                              .half_rows = plan_.tiles.half_rows,
                              .segment_groups = plan_.segment.overlaps ? plan_.padded / kS8Group : 0,
                              .segments = part.segments,
                              .groups = part.groups,
                              .columns = columns,
                              .ldc = ldc};
    if (plan_.spaced)
      product.spaced =
          windows_.spaced_at(r.x + group * plan_.inputs, row, plan_.tiles.half_rows, r.padding) + part.segment;
    else product.left = windows_.at(r.x + group * plan_.inputs, row, rows, r.padding) + part.segment * plan_.tile_rows;
    product.skipped = part.group * kS8Group;
    const std::int8_t* weights =
        reinterpret_cast<const std::int8_t*>(weights_->data.get()) + group * lanes() * plan_.depth;
    const WeightRange ahead = plan_.split.ahead(tile, plan_.depth);
    product.right = weights + column * plan_.depth;
    product.ahead = weights + ahead.first;
    product.ahead_bytes = ahead.bytes;
    product.pairs_fit = pairs_fit();
    product.panel_groups = plan_.depth / kS8Group;
    product.first_group = part.segment * plan_.split.segment_groups + part.group;
    product.begins = part.begins;
    product.ends = part.ends;
    if (auto* sums = plan_.split.partial_sums<std::int32_t>(); sums != nullptr) product.partial = sums + partial;
    product.start = r.terms.start + lane;
    product.factor = r.terms.factor + lane;
    product.offset = r.terms.offset + lane;
    if (r.window_sums != nullptr) {
      product.window_sums = r.window_sums + group * plan_.layer.rows() + row;
      product.shift = result_.shift() + lane;
    }
    product.low = result_.low();
    product.high = result_.high();
    product.zero = result_.zero();
    if (r.output.real != nullptr) product.real = r.output.real + offset;
    else product.quantised = r.output.quantised + offset;
    if (r.output.addend != nullptr) product.addend = r.output.addend + offset;
    product.sum = result_.sum();
    multiplier_.multiply(product);
    if (activation_.after.function == nullptr || !part.ends) return;
    for (std::int64_t i = 0; i < rows; ++i) activation_.after(product.real + i * ldc, columns);
  }

  void flip(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) const {
    const std::int64_t given = plan_.split.groups * plan_.layer.inputs;
    for (std::int64_t i = 0; i < count; ++i, from += given, to += plan_.geometry.channels) {
      std::transform(from, from + given, to,
                     [](std::uint8_t value) { return static_cast<std::uint8_t>(value ^ 0x80); });
      std::fill(to + given, to + plan_.geometry.channels, std::uint8_t{0});
    }
  }

  std::int64_t lanes() const { return round_up(plan_.layer.outputs, kS8Lanes); }  // of a group
  std::int64_t panel_bytes() const { return base::checked_multiply(plan_.split.groups * lanes(), plan_.depth); }
  // The sums of each column's weights, stored behind the panels.
  const std::int32_t* sums() const {
    return reinterpret_cast<const std::int32_t*>(weights_->data.get() + panel_bytes());
  }
  // The result of s8_pairs_fit, stored behind the sums.
  bool pairs_fit() const { return sums()[plan_.split.groups * lanes()] != 0; }

  // [group][panel][segment][group of four bytes][column][4], segments padded with zeros.
  void pack(const Tensor& weights, std::byte* to) const {
    std::memset(to, 0, static_cast<std::size_t>(panel_bytes() + plan_.split.groups * lanes() * 4));
    auto* sums = reinterpret_cast<std::int32_t*>(to + panel_bytes());
    const std::int8_t* from = weights.data<std::int8_t>();
    const std::int64_t taps_together = plan_.segments.length / plan_.inputs;  // in a segment
    for (std::int64_t g = 0; g < plan_.split.groups; ++g) {
      for (std::int64_t j = 0; j < plan_.layer.outputs; ++j) {
        const std::int64_t first = j / kS8Columns * kS8Columns,
                           width = round_up(std::min(kS8Columns, plan_.layer.outputs - first), kS8Lanes);
        auto* panel = reinterpret_cast<std::int8_t*>(to) + (g * lanes() + first) * plan_.depth + (j - first) * kS8Group;
        const std::int8_t* output = from + (g * plan_.layer.outputs + j) * plan_.layer.strides.output;
        std::int32_t sum = 0;
        for (std::int64_t t = 0; t < plan_.geometry.taps(); ++t) {
          const std::int64_t segment = t / taps_together * plan_.segment.length,
                             in_segment = t % taps_together * plan_.inputs;
          for (std::int64_t c = 0; c < plan_.layer.inputs; ++c) {
            const std::int8_t value = output[c * plan_.layer.strides.channel + t * plan_.layer.strides.tap];
            sum += value;
            const std::int64_t at = segment + plan_.segment.place(in_segment + c, plan_.padded);
            panel[at / kS8Group * width * kS8Group + at % kS8Group] = value;
          }
        }
        sums[g * lanes() + j] = sum;
      }
    }
    sums[plan_.split.groups * lanes()] = s8_pairs_fit(reinterpret_cast<const std::int8_t*>(to), panel_bytes());
  }

  bool signed_data_;
  MultiplierS8 multiplier_;
  ActivationPlan activation_;
  WindowPlan plan_;
  WindowPointers<std::uint8_t> windows_;
  ResultS8 result_;
  std::vector<std::uint8_t> padding_;  // a segment of the data's zero point, if that is constant
  std::optional<WindowSumsS8> window_sums_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

KernelPointer make_window_product_s8(const ops::NodeView& view, WeightStore& store, const WindowLayer& layer) {
  return std::make_unique<WindowProductS8>(view, store, layer);
}

}  // namespace tessera::backends::cpu
