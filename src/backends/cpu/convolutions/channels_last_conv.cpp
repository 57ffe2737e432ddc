// Convolution in float32 with the channels last: an indirect product of the windows with packed weights. The product
// with constant weights is one whose windows are rows.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/convolutions/window_product.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/indirect_product.h"
#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;

constexpr double kChunkOperations = 2e6;
constexpr double kCachedBytes = 3e6;  // of data that is still in a cache near by when it is read

class ChannelsLastConv final : public Kernel, public LineConv {
 public:
  // `inputs` and `outputs`: of a group. `packing` names the layout that `strides` lead to.
  ChannelsLastConv(const ops::NodeView& view, WeightStore& store, const ChannelsLastGeometry& geometry,
                   std::int64_t groups, std::int64_t inputs, std::int64_t outputs, WeightStrides strides,
                   std::string_view packing)
      : isa_(&indirect_product_isa()),
        geometry_(geometry),
        activation_(plan_activation(view)),
        inputs_(inputs),
        outputs_(outputs),
        segments_(geometry_, inputs_, groups),
        windows_(geometry_, segments_, inputs_, segments_.length, IndirectProduct::kMostRows, true),
        strides_(strides) {
    const Tensor& weights = *view.constant(1);
    depth_ = base::checked_multiply(segments_.count, segments_.length);
    split_ = {.rows = geometry_.batch * geometry_.outputs(),
              .columns = outputs_,
              .groups = groups,
              .tile_rows = isa_->rows,
              .tile_columns = isa_->columns};
    if (!segments_.whole_lines) split_.line_tiles = tiles_of_line(geometry_.axes[2], isa_->rows);
    split_.line_rows = geometry_.axes[2].output;
    split_.choose(2.0 * static_cast<double>(split_.rows) * static_cast<double>(outputs_) * static_cast<double>(depth_),
                  kChunkOperations, isa_->columns * depth_ * 4, geometry_.batch * geometry_.inputs() * inputs_ * 4);
    reads_ahead_ =
        static_cast<double>(geometry_.batch * geometry_.inputs()) * static_cast<double>(geometry_.channels) * 4 >
        kCachedBytes;
    zeros_.assign(static_cast<std::size_t>(segments_.length), 0.0f);
    bias_.assign(static_cast<std::size_t>(groups * round_up(outputs_, isa_->lanes)), 0.0f);
    if (view.has_input(2)) {
      const float* bias = view.constant(2)->data<float>();
      for (std::int64_t g = 0; g < groups; ++g)
        std::copy_n(bias + g * outputs_, outputs_, bias_.data() + g * round_up(outputs_, isa_->lanes));
    }
    weights_ = store.find_or_pack(
        weights, fmt::format("{}:{}:{}", packing, isa_->name, groups),
        base::checked_multiply(base::checked_multiply(groups, group_floats()), 4),
        [&](const Tensor& contents, std::byte* to) { pack(contents, reinterpret_cast<float*>(to)); });
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    const float* z = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(split_.chunks(), split_.grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        split_.for_each_tile(chunk, [&](const ProductTile& tile) {
          const auto [group, row, rows, column, columns, depth, partial] = tile;
          const std::int64_t offset = row * split_.groups * outputs_ + first_output(group, column);
          const float* const* left = windows_.at(x + group * inputs_, row, rows, zeros_.data());
          if (reads_ahead_) read_ahead(left, rows);
          run_tile(left, group, rows, column, columns, z == nullptr ? nullptr : z + offset, y + offset,
                   weights_behind(group, row, column, columns));
        });
      }
    });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& addend, const ByteLines& result, std::int64_t first,
                 std::int64_t last) const override {
    const auto x = lines_of_type<const float>(data), z = lines_of_type<const float>(addend);
    const auto y = lines_of_type<float>(result);
    const std::int64_t width = geometry_.axes[2].output, ldc = split_.groups * outputs_;
    ProductSplit split = split_;
    split.rows = (last - first) * width;
    split.row_chunks = split.panel_chunks = 1;
    const bool reads_ahead = reads_ahead_ && x.period == 0;
    for (std::int64_t chunk = 0; chunk < split.chunks(); ++chunk) {
      split.for_each_tile(chunk, [&](const ProductTile& tile) {
        const auto [group, row, rows, column, columns, depth, partial] = tile;
        const std::int64_t offset = row * ldc + first_output(group, column);
        const float* const* left =
            windows_.at({x.data + group * inputs_, x.elements, x.period}, first * width + row, rows, zeros_.data());
        if (reads_ahead) read_ahead(left, rows);
        run_tile(left, group, rows, column, columns, z.data == nullptr ? nullptr : z.at(first) + offset,
                 y.at(first) + offset);
      });
    }
  }

 private:
  std::int64_t group_floats() const { return round_up(outputs_, isa_->lanes) * depth_; }

  // [group][panel][tap][channel][column], columns rounded up to whole vectors.
  void pack(const Tensor& weights, float* to) const {
    const std::int64_t taps = geometry_.taps();
    std::vector<float> together(static_cast<std::size_t>(taps > 1 ? kPackedTogether * taps * isa_->columns : 0));
    for (std::int64_t g = 0; g < split_.groups; ++g) {
      for (std::int64_t first = 0; first < outputs_; first += isa_->columns) {
        const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
        const float* from = weights.data<float>() + (g * outputs_ + first) * strides_.output;
        if (columns < width) std::fill_n(to, width * depth_, 0.0f);
        if (taps == 1) gemm_f32_transpose(from, strides_.output, strides_.channel, columns, inputs_, to, width);
        // The taps of a channel lie together: a few channels at a time are turned around, then their rows go to the
        // taps.
        for (std::int64_t c = 0; taps > 1 && c < inputs_; c += kPackedTogether) {
          const std::int64_t count = std::min(inputs_ - c, kPackedTogether);
          gemm_f32_transpose(from + c * taps, strides_.output, 1, columns, count * taps, together.data(), width);
          for (std::int64_t row = 0; row < count * taps; ++row)
            std::copy_n(together.data() + row * width, columns, to + (row % taps * inputs_ + c + row / taps) * width);
        }
        to += width * depth_;
      }
    }
  }

  std::int64_t first_output(std::int64_t group, std::int64_t column) const { return group * outputs_ + column; }

  // The pixels behind the last of these windows, which the next windows need.
  void read_ahead(const float* const* left, std::int64_t count) const {
    const ops::WindowAxis& line = geometry_.axes[2];
    const std::int64_t taps = segments_.whole_lines ? 1 : line.kernel,
                       floats = count * line.stride * geometry_.channels;
    for (std::int64_t s = taps - 1; s < segments_.count; s += taps) {
      const float* last = left[s * IndirectProduct::kMostRows + count - 1];
      if (last == nullptr) continue;
      const float* from = last + (segments_.whole_lines ? segments_.length : geometry_.channels);
      for (std::int64_t i = 0; i < floats; i += CacheLine::kFloats) __builtin_prefetch(from + i, 0, 2);
    }
  }

  const float* packed(std::int64_t group, std::int64_t column) const {
    return reinterpret_cast<const float*>(weights_->data.get()) + group * group_floats() + column * depth_;
  }

  // Where weights are more than data, those behind these columns come next: each tile of rows fetches its part of as
  // many. Null: nothing to fetch.
  const float* weights_behind(std::int64_t group, std::int64_t row, std::int64_t first, std::int64_t columns) const {
    constexpr std::int64_t kMostFloats = 96 * 1024;  // of which two are in the second-level cache beside the data
    if (split_.rows_first || first + columns >= outputs_ || columns * depth_ > kMostFloats) return nullptr;
    const std::int64_t tile = base::ceil_divide(row * base::ceil_divide(split_.rows, isa_->rows), split_.rows),
                       panels = base::ceil_divide(columns, isa_->columns);
    const std::int64_t fetched = tile * panels * depth_ * IndirectProduct::kNextFloats;
    return fetched < std::min(columns, outputs_ - first - columns) * depth_ ? packed(group, first + columns) + fetched
                                                                            : nullptr;
  }

  // The columns [first, first + columns) of a group for `count` windows; z (or null) and y begin there.
  void run_tile(const float* const* left, std::int64_t group, std::int64_t count, std::int64_t first,
                std::int64_t columns, const float* z, float* y, const float* next = nullptr) const {
    const std::int64_t ldc = split_.groups * outputs_;
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
    product.right = packed(group, first);
    product.next = next;
    product.bias = bias_.data() + group * round_up(outputs_, isa_->lanes) + first;
    isa_->multiply(product);
    if (activation_.after.function == nullptr) return;
    if (columns == ldc) activation_.after(product.c, count * ldc);
    else
      for (std::int64_t i = 0; i < count; ++i) activation_.after(product.c + i * ldc, columns);
  }

  const IndirectProductIsa* isa_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t inputs_, outputs_;  // channels of a group
  WindowSegments segments_;
  WindowPointers<float> windows_;
  std::int64_t depth_ = 0;
  ProductSplit split_;
  bool reads_ahead_ = false;
  WeightStrides strides_;
  std::vector<float> zeros_, bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_channels_last_conv(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  // Vectors of output channels would be empty for the most part.
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  return groups > 1 && view.input(1).shape[0] / groups < kFewOutputs ? "few output channels a group" : "";
}

namespace {

std::unique_ptr<ChannelsLastConv> make_windows_conv(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(1).shape;
  const std::int64_t groups = view.integer("group");
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  return std::make_unique<ChannelsLastConv>(view, weights, geometry, groups, w[1], w[0] / groups,
                                            WeightStrides{w[1] * geometry.taps(), geometry.taps(), 1},
                                            "channels_last_conv_v1");
}

}  // namespace

KernelPointer make_channels_last_conv(const ops::NodeView& view, WeightStore& weights) {
  return make_windows_conv(view, weights);
}
std::unique_ptr<LineConv> make_line_conv(const ops::NodeView& view, WeightStore& weights) {
  return make_windows_conv(view, weights);
}

std::string reject_indirect_linear(const ops::NodeView& view) {
  if (std::string reason = reject_linear(view); !reason.empty()) return reason;
  return view.has_input(2) && view.constant(2) == nullptr ? "the bias is no constant" : "";
}

KernelPointer make_indirect_linear(const ops::NodeView& view, WeightStore& weights) {
  const Shape& w = view.input(1).shape;
  const bool transposed = view.integer("transB") != 0;
  const std::int64_t inputs = w[transposed ? 1 : 0], outputs = w[transposed ? 0 : 1];
  Shape rows = view.output(0).shape;
  rows.back() = inputs;
  return std::make_unique<ChannelsLastConv>(view, weights, rows_geometry(rows), 1, inputs, outputs,
                                            transposed ? WeightStrides{inputs, 1, 0} : WeightStrides{1, outputs, 0},
                                            transposed ? "indirect_linear_v1:transposed" : "indirect_linear_v1:plain");
}

std::string reject_channels_last_depthwise(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  const Shape& w = view.input(1).shape;
  return w[1] == 1 && w[0] == view.integer("group") ? "" : "more than one channel a group";
}

}  // namespace tessera::backends::cpu
