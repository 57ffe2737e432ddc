// Convolution in float32 with the channels last: an indirect product of the windows with packed weights.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/indirect_product.h"
#include "backends/cpu/kernels/channels_last.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

// Channels below which the taps of a row of the window are one segment: the loop over a segment should be long.
constexpr std::int64_t kFewChannels = 32;
constexpr std::int64_t kBlockFloats = 96 * 1024;  // of weights that stay in the second-level cache
constexpr std::int64_t kPackedTogether = 16;
constexpr double kChunkOperations = 2e6, kMostChunks = 64;

class ChannelsLastConv final : public Kernel {
 public:
  ChannelsLastConv(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()), geometry_(channels_last_conv_geometry(view)), activation_(plan_activation(view)), groups_(view.integer("group")) {
    const Tensor& weights = *view.constant(1);
    inputs_ = weights.shape()[1];
    outputs_ = weights.shape()[0] / groups_;
    const ops::WindowAxis& line = geometry_.axes[2];
    whole_lines_ = line.kernel > 1 && line.dilation == 1 && groups_ == 1 && inputs_ < kFewChannels;
    segments_ = whole_lines_ ? geometry_.taps() / line.kernel : geometry_.taps();
    length_ = whole_lines_ ? line.kernel * inputs_ : inputs_;
    depth_ = base::checked_multiply(segments_, length_);
    zeros_.assign(static_cast<std::size_t>(length_), 0.0f);
    bias_.assign(static_cast<std::size_t>(groups_ * round_up(outputs_, isa_->lanes)), 0.0f);
    if (view.has_input(2)) {
      const float* bias = view.constant(2)->data<float>();
      for (std::int64_t g = 0; g < groups_; ++g) std::copy_n(bias + g * outputs_, outputs_, bias_.data() + g * round_up(outputs_, isa_->lanes));
    }
    weights_ = store.find_or_pack(weights, fmt::format("channels_last_conv_v1:{}:{}", isa_->name, groups_), base::checked_multiply(base::checked_multiply(groups_, group_floats()), 4),
                                  [&](std::byte* to) { pack(weights, reinterpret_cast<float*>(to)); });
    choose_chunks();
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    const float* z = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(groups_ * row_chunks_ * panel_chunks_, grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) run_chunk(i, x, z, y);
    });
  }

 private:
  std::int64_t rows() const { return geometry_.batch * geometry_.outputs(); }
  std::int64_t panels() const { return ceil_divide(outputs_, isa_->columns); }
  std::int64_t group_floats() const { return round_up(outputs_, isa_->lanes) * depth_; }

  // [group][panel][tap][channel][column], columns rounded up to whole vectors.
  void pack(const Tensor& weights, float* to) const {
    const float* from = weights.data<float>();
    const std::int64_t taps = geometry_.taps();
    for (std::int64_t g = 0; g < groups_; ++g) {
      for (std::int64_t first = 0; first < outputs_; first += isa_->columns) {
        const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
        // A few channels at a time, so that the lines that are written stay in the cache from one column to the next.
        for (std::int64_t block = 0; block < inputs_; block += kPackedTogether) {
          const std::int64_t end = std::min(inputs_, block + kPackedTogether);
          for (std::int64_t j = 0; j < width; ++j) {
            const float* output = from + (g * outputs_ + first + j) * inputs_ * taps;
            for (std::int64_t c = block; c < end; ++c) {
              for (std::int64_t t = 0; t < taps; ++t) to[(t * inputs_ + c) * width + j] = j < columns ? output[c * taps + t] : 0.0f;
            }
          }
        }
        to += width * depth_;
      }
    }
  }

  // Rows are split where data is more than weights, columns otherwise: what is not split is read again by each chunk.
  void choose_chunks() {
    const double operations = 2.0 * static_cast<double>(rows()) * static_cast<double>(outputs_) * static_cast<double>(depth_);
    const auto wanted = static_cast<std::int64_t>(std::clamp(operations / kChunkOperations, 1.0, kMostChunks));
    const std::int64_t tiles = std::max<std::int64_t>(1, ceil_divide(rows(), isa_->rows));
    const bool columns_first = group_floats() > geometry_.batch * geometry_.inputs() * inputs_;
    if (columns_first) panel_chunks_ = std::min(panels(), wanted);
    row_chunks_ = std::min(tiles, ceil_divide(wanted, panel_chunks_));
    if (!columns_first) panel_chunks_ = std::min(panels(), ceil_divide(wanted, row_chunks_));
    block_panels_ = std::max<std::int64_t>(1, kBlockFloats / (isa_->columns * std::max<std::int64_t>(1, depth_)));
    grain_ = static_cast<std::int64_t>(std::clamp(kChunkOperations / 2 / std::max(1.0, operations / static_cast<double>(row_chunks_ * panel_chunks_)), 1.0, 256.0));
  }

  void run_chunk(std::int64_t index, const float* x, const float* z, float* y) const {
    const std::int64_t row_chunk = index % row_chunks_, panel_chunk = index / row_chunks_ % panel_chunks_, group = index / row_chunks_ / panel_chunks_;
    const std::int64_t tiles = ceil_divide(rows(), isa_->rows);
    const std::int64_t row_begin = tiles * row_chunk / row_chunks_ * isa_->rows, row_end = std::min(rows(), tiles * (row_chunk + 1) / row_chunks_ * isa_->rows);
    const std::int64_t panel_begin = panels() * panel_chunk / panel_chunks_, panel_end = panels() * (panel_chunk + 1) / panel_chunks_;
    const std::int64_t chunk_tiles = ceil_divide(row_end - row_begin, isa_->rows);
    for (std::int64_t panel = panel_begin; panel < panel_end; panel += block_panels_) {
      const std::int64_t first = panel * isa_->columns, last = std::min(outputs_, std::min(panel_end, panel + block_panels_) * isa_->columns);
      for (std::int64_t tile = 0; tile < chunk_tiles; ++tile) {
        // Tiles of about equal height: a last one of few rows would read all weights for little.
        const std::int64_t row = row_begin + (row_end - row_begin) * tile / chunk_tiles, next = row_begin + (row_end - row_begin) * (tile + 1) / chunk_tiles;
        run_tile(group, row, next - row, first, last - first, x, z, y);
      }
    }
  }

  void run_tile(std::int64_t group, std::int64_t row, std::int64_t count, std::int64_t first, std::int64_t columns, const float* x, const float* z, float* y) const {
    const std::int64_t ldc = groups_ * outputs_, offset = row * ldc + group * outputs_ + first;
    IndirectProduct product{.rows = count, .segments = segments_, .length = length_, .columns = columns, .ldc = ldc, .low = activation_.low, .high = activation_.high};
    product.left = windows(x + group * inputs_, row, count);
    product.right = reinterpret_cast<const float*>(weights_->data.get()) + group * group_floats() + first * depth_;
    product.bias = bias_.data() + group * round_up(outputs_, isa_->lanes) + first;
    product.addend = z == nullptr ? nullptr : z + offset;
    product.c = y + offset;
    isa_->multiply(product);
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < count; ++i) activation_.after(product.c + i * ldc, columns);
  }

  // Where the windows of `count` outputs from `row` on lie: [segment][kMostRows].
  const float* const* windows(const float* x, std::int64_t row, std::int64_t count) const {
    constexpr std::int64_t kRows = IndirectProduct::kMostRows;
    thread_local std::vector<const float*> pointers;
    thread_local std::vector<float> patches;  // segments that reach beyond their line
    pointers.resize(static_cast<std::size_t>(segments_ * kRows));
    if (whole_lines_) patches.resize(static_cast<std::size_t>(segments_ * kRows * length_));
    const auto& [depth, lines, line] = geometry_.axes;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t image = (row + i) / geometry_.outputs(), position = (row + i) % geometry_.outputs();
      const std::int64_t start = position % line.output * line.stride - line.pad_begin;
      const std::int64_t top = position / line.output % lines.output * lines.stride - lines.pad_begin;
      const std::int64_t front = position / line.output / lines.output * depth.stride - depth.pad_begin;
      const float* picture = x + image * geometry_.inputs() * geometry_.channels;
      std::int64_t segment = 0;
      for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
        const std::int64_t d = front + kd * depth.dilation;
        for (std::int64_t kh = 0; kh < lines.kernel; ++kh) {
          const std::int64_t h = top + kh * lines.dilation;
          const bool inside = d >= 0 && d < depth.input && h >= 0 && h < lines.input;
          const float* from = picture + (d * lines.input + h) * line.input * geometry_.channels;
          if (whole_lines_) {
            const float*& pointer = pointers[static_cast<std::size_t>(segment * kRows + i)];
            if (!inside) pointer = zeros_.data();
            else if (start >= 0 && start + line.kernel <= line.input) pointer = from + start * geometry_.channels;
            else pointer = patch(from, start, patches.data() + (segment * kRows + i) * length_);
            ++segment;
            continue;
          }
          for (std::int64_t kw = 0; kw < line.kernel; ++kw, ++segment) {
            const std::int64_t w = start + kw * line.dilation;
            pointers[static_cast<std::size_t>(segment * kRows + i)] = inside && w >= 0 && w < line.input ? from + w * geometry_.channels : zeros_.data();
          }
        }
      }
    }
    return pointers.data();
  }

  // A segment of whole pixels from `start` on, zeros outside the line.
  const float* patch(const float* line, std::int64_t start, float* to) const {
    const ops::WindowAxis& axis = geometry_.axes[2];
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const bool inside = start + k >= 0 && start + k < axis.input;
      if (inside) std::copy_n(line + (start + k) * inputs_, inputs_, to + k * inputs_);
      else std::fill_n(to + k * inputs_, inputs_, 0.0f);
    }
    return to;
  }

  const IndirectProductIsa* isa_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t groups_, inputs_, outputs_;  // channels of a group
  bool whole_lines_;                        // segments are lines of the window, not single taps
  std::int64_t segments_, length_, depth_;
  std::vector<float> zeros_, bias_;
  std::shared_ptr<const PackedWeights> weights_;
  std::int64_t row_chunks_ = 1, panel_chunks_ = 1, block_panels_ = 1, grain_ = 1;
};

}  // namespace

std::string reject_channels_last_conv(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  // Vectors of output channels would be empty for the most part.
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  return groups > 1 && view.input(1).shape[0] / groups < kFewOutputs ? "few output channels a group" : "";
}

KernelPointer make_channels_last_conv(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ChannelsLastConv>(view, weights);
}

std::string reject_channels_last_depthwise(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  const Shape& w = view.input(1).shape;
  return w[1] == 1 && w[0] == view.integer("group") ? "" : "more than one channel a group";
}

}  // namespace tessera::backends::cpu
