// Transposed convolution in float32 with the channels last, for windows that lie side by side: every tap is a product of the inputs with
// its weights, whose rows go to every stride-th output of a line.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/indirect_product.h"
#include "backends/cpu/kernels/channels_last.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/checked.h"
#include "ops/channels_last.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr double kChunkOperations = 1e6;

std::vector<ops::WindowAxis> axes_of(const ops::NodeView& view) {
  return ops::transposed_geometry(view, ops::channels_first(view.input(0).shape), view.input(1).shape);
}

class ConvTranspose final : public Kernel {
 public:
  ConvTranspose(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()), geometry_(channels_last_geometry(view, axes_of(view))), activation_(plan_activation(view)), outputs_(view.input(1).shape[1]) {
    bias_.assign(static_cast<std::size_t>(round_up(outputs_, isa_->lanes)), 0.0f);
    if (view.has_input(2)) std::copy_n(view.constant(2)->data<float>(), outputs_, bias_.data());
    const Tensor& weights = *view.constant(1);
    weights_ = store.find_or_pack(weights, fmt::format("channels_last_conv_transpose_v1:{}", isa_->name),
                                  base::checked_multiply(base::checked_multiply(geometry_.taps(), tap_floats()), 4), [&](std::byte* to) { pack(weights, reinterpret_cast<float*>(to)); });
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const auto& [depth, lines, line] = geometry_.axes;
    const double operations = 2.0 * static_cast<double>(line.input) * static_cast<double>(geometry_.channels) * static_cast<double>(outputs_) * static_cast<double>(geometry_.taps());
    const auto grain = static_cast<std::int64_t>(std::clamp(kChunkOperations / operations, 1.0, 1024.0));
    context.parallel_for(geometry_.batch * depth.input * lines.input, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) run_line(i, x, y);
    });
  }

 private:
  std::int64_t tap_floats() const { return round_up(outputs_, isa_->lanes) * geometry_.channels; }

  // [tap][panel][input][output], outputs rounded up to whole vectors.
  void pack(const Tensor& weights, float* to) const {
    const std::int64_t taps = geometry_.taps();
    for (std::int64_t t = 0; t < taps; ++t) {
      for (std::int64_t first = 0; first < outputs_; first += isa_->columns) {
        const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
        for (std::int64_t c = 0; c < geometry_.channels; ++c, to += width) {
          for (std::int64_t j = 0; j < width; ++j) to[j] = j < columns ? weights.data<float>()[(c * outputs_ + first + j) * taps + t] : 0.0f;
        }
      }
    }
  }

  // All outputs that a line of inputs gives.
  void run_line(std::int64_t index, const float* x, float* y) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t row = index % lines.input, plane = index / lines.input % depth.input, image = index / lines.input / depth.input;
    const float* from = x + index * line.input * geometry_.channels;
    const std::int64_t pieces = ceil_divide(line.input, isa_->rows);
    const float* rows[IndirectProduct::kMostRows];
    for (std::int64_t tap = 0; tap < geometry_.taps(); ++tap) {
      const std::int64_t kw = tap % line.kernel, kh = tap / line.kernel % lines.kernel, kd = tap / line.kernel / lines.kernel;
      float* to = y + (((image * depth.output + plane * depth.stride + kd) * lines.output + row * lines.stride + kh) * line.output + kw) * outputs_;
      IndirectProduct product{.segments = 1, .length = geometry_.channels, .left = rows, .columns = outputs_, .bias = bias_.data(), .ldc = line.stride * outputs_,
                              .low = activation_.low, .high = activation_.high};
      product.right = reinterpret_cast<const float*>(weights_->data.get()) + tap * tap_floats();
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t begin = line.input * piece / pieces, end = line.input * (piece + 1) / pieces;
        for (std::int64_t i = begin; i < end; ++i) rows[i - begin] = from + i * geometry_.channels;
        product.rows = end - begin;
        product.c = to + begin * product.ldc;
        isa_->multiply(product);
        if (activation_.after.function == nullptr) continue;
        for (std::int64_t i = begin; i < end; ++i) activation_.after(to + i * product.ldc, outputs_);
      }
    }
  }

  const IndirectProductIsa* isa_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t outputs_;
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_channels_last_conv_transpose(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  if (view.integer("group") != 1) return "groups";
  for (const ops::WindowAxis& axis : axes_of(view)) {
    const bool side_by_side = axis.kernel == axis.stride && axis.dilation == 1 && axis.pad_begin == 0 && axis.output == axis.input * axis.stride;
    if (!side_by_side) return "windows that overlap or leave gaps";
  }
  return "";
}

KernelPointer make_channels_last_conv_transpose(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ConvTranspose>(view, weights);
}

}  // namespace tessera::backends::cpu
