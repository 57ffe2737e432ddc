#include "backends/cuda/movement/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/cuda/kernels/movement/resize_parameters.h"
#include "backends/cuda/launch_types.h"
#include "ops/sampling/resize.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kResizeAxes;
using tessera::cuda::kResizeThreads;
using tessera::cuda::ResizeAxis;
using tessera::cuda::ResizeParameters;
using tessera::cuda::ResizeRounding;

std::optional<ResizeRounding> rounding_of(const ops::NodeView& view) {
  const ops::ResizeMode mode = ops::resize_mode(view);
  if (mode == ops::ResizeMode::linear) return ResizeRounding::linear;
  if (mode != ops::ResizeMode::nearest) return std::nullopt;
  const std::string& nearest = view.text("nearest_mode");
  return nearest == "floor"               ? ResizeRounding::floor
         : nearest == "ceil"              ? ResizeRounding::ceil
         : nearest == "round_prefer_ceil" ? ResizeRounding::prefer_ceil
                                          : ResizeRounding::prefer_floor;
}

// The position that the kernel computes.
double position_of(const ResizeAxis& axis, std::int64_t at) {
  return (static_cast<double>(at) + axis.shift) * axis.multiplier / axis.divisor + axis.offset;
}

// Whether the kernel takes the elements with the weights of the operator, for all positions of the result.
bool samples_alike(const ops::NodeView& view, const ops::ResizedAxis& axis, const ResizeAxis& kernel) {
  const bool is_linear = ops::resize_mode(view) == ops::ResizeMode::linear;
  for (std::int64_t at = 0; at < axis.size; ++at) {
    if (position_of(kernel, at) != ops::resize_source_position(view, axis, at, kernel.x_size)) return false;
    const ops::ResizeTaps taps = ops::resize_taps(view, axis, at, kernel.x_size);
    if (taps.outside || taps.weights.size() > (is_linear ? 2 : 1)) return false;
  }
  return true;
}

// The transformation of an axis's coordinates; nothing where the kernel has none like it.
std::optional<ResizeAxis> axis_of(const ops::NodeView& view, const ops::ResizedAxis& axis, std::int64_t size) {
  const int x = static_cast<int>(size), y = static_cast<int>(axis.size);
  const double last = static_cast<double>(size) - 1, width = axis.scale * static_cast<double>(size);
  for (const ResizeAxis& kernel : {ResizeAxis{x, y, 0, 1, 1, 0}, ResizeAxis{x, y, 0.5, 1, axis.scale, -0.5},
                                   ResizeAxis{x, y, 0, 1, axis.scale, 0}, ResizeAxis{x, y, 0, last, width - 1, 0}}) {
    if (kernel.divisor != 0 && samples_alike(view, axis, kernel)) return kernel;
  }
  return std::nullopt;
}

// An input that has elements and is known; nothing where it is not known.
std::optional<const Tensor*> known_input(const ops::NodeView& view, std::size_t i) {
  if (!view.has_input(i) || view.input(i).elements() == 0) return nullptr;
  return view.constant(i) != nullptr ? std::optional(view.constant(i)) : std::nullopt;
}

// The launch, without addresses, or why there is none.
std::string plan_resize(const ops::NodeView& view, ResizeParameters& p) {
  const Shape &x = view.input(0).shape, &y = view.output(0).shape;
  const auto roi = known_input(view, 1), scales = known_input(view, 2), sizes = known_input(view, 3);
  if (!roi || !scales || !sizes) return "the kernel needs constant scales or sizes";
  if ((*scales != nullptr) == (*sizes != nullptr)) return "the kernel needs scales or sizes";
  const std::optional<ResizeRounding> rounding = rounding_of(view);
  if (!rounding) return "the kernel takes the nearest element or interpolates linearly";
  if (view.input(0).elements() == 0 || view.output(0).elements() == 0) return "there is nothing to resize";
  const std::vector<ops::ResizedAxis> axes = ops::resolve_resize(view, x, *roi, *scales, *sizes);
  std::size_t first = x.size(), end = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (axes[i].size == x[i] && axes[i].scale == 1) continue;
    first = std::min(first, i);
    end = i + 1;
  }
  if (end > first + static_cast<std::size_t>(kResizeAxes))
    return fmt::format("the kernel resizes {} axes", kResizeAxes);
  std::fill_n(p.axes, kResizeAxes, ResizeAxis{1, 1, 0, 1, 1, 0});
  for (std::size_t i = first; i < end; ++i) {
    if (x[i] > std::numeric_limits<int>::max() || y[i] > std::numeric_limits<int>::max())
      return "the kernel counts positions in 32 bits";
    const std::optional<ResizeAxis> axis = axis_of(view, axes[i], x[i]);
    if (!axis) return "the kernel has no such coordinates";
    p.axes[static_cast<std::size_t>(kResizeAxes) - (end - i)] = *axis;
  }
  p.inner = 1;
  for (std::size_t i = std::max(first, end); i < x.size() && end > 0; ++i) p.inner *= x[i];
  p.count = view.output(0).elements();
  p.rounding = *rounding;
  return "";
}

std::string kernel_name(const ops::NodeView& view) {
  return fmt::format("resize_{}", suffix_of(view.input(0).dtype));
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  if (suffix_of(view.input(0).dtype).empty()) return "the kernel computes f32, f16 and bf16 alone";
  ResizeParameters p{};
  if (std::string why = plan_resize(view, p); !why.empty()) return why;
  return reason_without_image(kernel_name(view), device);
}

class ResizeKernel final : public Kernel {
 public:
  explicit ResizeKernel(const ops::NodeView& view) : kernel_(kernel_name(view)) { plan_resize(view, parameters_); }
  void run(KernelContext& context) const override {
    ResizeParameters p = parameters_;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_raw();
    // Blocks beyond this many take their elements in turns.
    constexpr std::int64_t kMostBlocks = 65535;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(p.count, kResizeThreads)));
    shape.block.x = kResizeThreads;
    stream_of(context).launch_with(kernel_, shape, p);
  }

 private:
  const std::string kernel_;
  ResizeParameters parameters_{};
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<ResizeKernel>(view);
}

}  // namespace

std::span<const KernelEntry> resize_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "Resize", .name = "cuda_resize", .reject_on = reject, .create_on = create},
  };
  return table;
}

}  // namespace tessera::backends::cuda
