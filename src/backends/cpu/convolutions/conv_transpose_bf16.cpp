// Channels-last transposed convolution with data and weights rounded to bfloat16 (ops/products/rounded_product.h): the
// gradient of a convolution with respect to its data, and ConvTranspose itself. Each phase (transposed_phases.h) is a
// product of windows whose results go to the positions of the phase.
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/transposed_phases.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kMostPhases = 64;

// The layers of all phases that have taps and positions; no value if one of them cannot be a convolution.
// `all_reached`: whether every position belongs to such a phase.
struct PhaseLayers {
  std::vector<WindowLayer> layers;
  bool all_reached = true;
};

std::optional<PhaseLayers> layers_of(const ops::NodeView& view) {
  const ChannelsLastGeometry geometry = channels_last_conv_transpose_geometry(view);
  const Shape& w = view.input(1).shape;
  const std::int64_t groups = view.integer("group"), taps = geometry.taps();
  const bool strided = std::ranges::any_of(geometry.axes, [](const ops::WindowAxis& axis) { return axis.stride > 1; });
  std::vector<AxisPhase> phases[3];
  std::int64_t count = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    count *= std::min(geometry.axes[i].stride, kMostPhases);
    if (count > kMostPhases) return std::nullopt;
    phases[i] = phases_of(geometry.axes[i]);
  }
  PhaseLayers result;
  for (std::int64_t number = 0; number < count; ++number) {
    WindowLayer layer{.geometry = geometry, .groups = groups, .inputs = w[0] / groups, .outputs = w[1]};
    layer.strides = {taps, w[1] * taps, 1};
    layer.weight_taps = taps;
    layer.tap_order = {0};
    ResultPlaces places;
    bool has_positions = true, has_taps = true;
    std::int64_t rest = number;
    for (std::size_t i = 0; i < 3; ++i) {
      const ops::WindowAxis& axis = geometry.axes[i];
      const AxisPhase& phase = phases[i][static_cast<std::size_t>(rest % axis.stride)];
      rest /= axis.stride;
      has_positions &= phase.count > 0;
      has_taps &= !phase.taps.empty();
      if (!has_taps || !has_positions) continue;
      const std::optional<ops::WindowAxis> window = convolution_axis(axis, phase);
      if (!window) return std::nullopt;
      layer.geometry.axes[i] = *window;
      places.axes[i] = {phase.first, axis.stride, axis.output};
      std::vector<std::int64_t> order;
      for (const std::int64_t outer : layer.tap_order) {
        for (auto tap = phase.taps.rbegin(); tap != phase.taps.rend(); ++tap)
          order.push_back(outer * axis.kernel + tap->index);
      }
      layer.tap_order = std::move(order);
    }
    if (has_positions && !has_taps) result.all_reached = false;
    if (!has_positions || !has_taps) continue;
    if (strided) layer.places = places;
    result.layers.push_back(std::move(layer));
  }
  return result;
}

class ConvTransposeBf16 final : public Kernel {
 public:
  ConvTransposeBf16(const ops::NodeView& view, WeightStore& store, const PhaseLayers& phases)
      : all_reached_(phases.all_reached) {
    for (const WindowLayer& layer : phases.layers) products_.push_back(make_window_product_bf16(view, store, layer));
  }

  std::int64_t scratch_bytes() const override {
    std::int64_t most = 0;
    for (const auto& product : products_) most = std::max(most, product->scratch_bytes());
    return most;
  }

  void run(KernelContext& context) const override {
    if (!all_reached_) {
      Tensor& y = context.output(0);
      auto* bytes = static_cast<std::byte*>(y.mutable_raw());
      context.parallel_for(y.bytes(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::memset(bytes + begin, 0, static_cast<std::size_t>(end - begin));
      });
    }
    for (const auto& product : products_) product->run(context);
  }

 private:
  bool all_reached_;
  std::vector<std::unique_ptr<LineKernel>> products_;  // one per phase
};

}  // namespace

std::string avoid_bf16_gradient(const ChannelsLastGeometry& geometry, bool has_groups) {
  if (active_tiles() || emulates_tiles()) return "";
  if (!active_bf16()) return "no instructions for bfloat16";
  const auto is_three = [](const ops::WindowAxis& axis) { return axis.kernel == 3 && axis.stride == 1; };
  const bool suits_winograd = !has_groups && is_three(geometry.axes[1]) && is_three(geometry.axes[2]);
  return suits_winograd ? "Winograd's algorithm in float32 multiplies less" : "";
}

std::string reject_conv_transpose_bf16(const ops::NodeView& view) {
  if (std::string reason = reject_operands_bf16(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  if (groups > 1 && view.input(1).shape[1] < kFewOutputs) return "few output channels a group";
  const std::optional<PhaseLayers> phases = layers_of(view);
  if (!phases) return "strides beyond count, or more padding than the windows reach";
  const bool is_plain = !view.has_input(2) && plan_activation(view).after.function == nullptr &&
                        plan_activation(view).low <= 0 && plan_activation(view).high >= 0;
  return phases->all_reached || is_plain ? "" : "positions that get a bias or an activation alone";
}

std::string avoid_conv_transpose_bf16(const ops::NodeView& view) {
  return avoid_bf16_gradient(channels_last_conv_transpose_geometry(view), view.integer("group") > 1);
}

KernelPointer make_conv_transpose_bf16(const ops::NodeView& view, WeightStore& weights) {
  const std::optional<PhaseLayers> phases = layers_of(view);
  return std::make_unique<ConvTransposeBf16>(view, weights, *phases);
}

}  // namespace tessera::backends::cpu
