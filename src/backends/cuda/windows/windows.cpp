#include "backends/cuda/windows/windows.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cuda/constants.h"
#include "backends/cuda/kernels/windows/windows_parameters.h"
#include "backends/cuda/launch_types.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::ConvParameters;
using tessera::cuda::kWindowAxes;
using tessera::cuda::kWindowThreads;
using tessera::cuda::PoolingKind;
using tessera::cuda::PoolingParameters;
using tessera::cuda::WindowGeometry;

// Blocks beyond this many take their elements in turns.
constexpr std::int64_t kMostBlocks = 65535;

// The axes of the windows: of a convolution, of pooling, or the whole image.
std::vector<ops::WindowAxis> axes_of(const ops::NodeView& view) {
  const Shape& x = view.input(0).shape;
  if (view.op().name == "Conv") return ops::convolution_geometry(view, x, view.input(1).shape);
  if (view.op().name == "ConvTranspose") return ops::transposed_geometry(view, x, view.input(1).shape);
  if (!view.op().name.starts_with("Global")) return ops::pooling_geometry(view, x);
  std::vector<ops::WindowAxis> axes;
  for (std::size_t axis = 2; axis < x.size(); ++axis)
    axes.push_back({.input = x[axis], .output = 1, .kernel = x[axis]});
  return axes;
}

std::string reject_shapes(const ops::NodeView& view) {
  const ops::TensorType &x = view.input(0), &y = view.output(0);
  if (suffix_of(x.dtype).empty()) return "the kernel computes f32, f16 and bf16 alone";
  if (x.shape.size() < 3 || x.shape.size() > 2 + static_cast<std::size_t>(kWindowAxes))
    return fmt::format("the kernel's windows have one to {} axes", kWindowAxes);
  for (std::size_t i = 1; i < view.output_count(); ++i) {
    if (view.wants_output(i)) return "the kernel gives no indices";
  }
  const auto fits = [](std::int64_t size) { return size <= std::numeric_limits<int>::max() / 4; };
  const std::vector<ops::WindowAxis> axes = axes_of(view);
  double taps = 1;
  for (const ops::WindowAxis& axis : axes) taps *= static_cast<double>(axis.kernel);
  const bool sizes_fit = taps <= std::numeric_limits<int>::max() && std::ranges::all_of(x.shape, fits) &&
                         std::ranges::all_of(y.shape, fits) &&
                         std::ranges::all_of(axes, [&](const ops::WindowAxis& axis) {
                           return fits(axis.kernel) && fits(axis.stride) && fits(axis.dilation) &&
                                  fits(std::max(axis.input, axis.output) * axis.stride + axis.extent() +
                                       std::abs(axis.pad_begin) + std::abs(axis.pad_end));
                         });
  return sizes_fit ? "" : "the kernel counts positions in 32 bits";
}

WindowGeometry geometry_of(const ops::NodeView& view) {
  const std::vector<ops::WindowAxis> axes = axes_of(view);
  const Shape &x = view.input(0).shape, &y = view.output(0).shape;
  const auto size = [](std::int64_t value) { return static_cast<int>(value); };
  WindowGeometry geometry{.batch = size(x[0]), .channels = size(x[1]), .outputs = size(y[1])};
  for (int* const list : {geometry.x_size, geometry.y_size, geometry.kernel, geometry.stride, geometry.dilation})
    std::fill_n(list, kWindowAxes, 1);
  const std::size_t first = static_cast<std::size_t>(kWindowAxes) - axes.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    geometry.x_size[first + i] = size(x[2 + i]);
    geometry.y_size[first + i] = size(y[2 + i]);
    geometry.kernel[first + i] = size(axes[i].kernel);
    geometry.stride[first + i] = size(axes[i].stride);
    geometry.dilation[first + i] = size(axes[i].dilation);
    geometry.pad_begin[first + i] = size(axes[i].pad_begin);
  }
  return geometry;
}

LaunchShape shape_of(std::int64_t elements) {
  LaunchShape shape;
  shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(elements, kWindowThreads)));
  shape.block.x = kWindowThreads;
  return shape;
}

std::string kernel_name(std::string_view family, const ops::NodeView& view) {
  return fmt::format("{}_{}", family, suffix_of(view.input(0).dtype));
}

std::string_view conv_family(const ops::NodeView& view) {
  return view.op().name == "ConvTranspose" ? "conv_transpose" : "conv_direct";
}

std::string reject_conv(const ops::NodeView& view, const DeviceProperties& device) {
  if (std::string why = reject_shapes(view); !why.empty()) return why;
  if (view.input(1).dtype != view.input(0).dtype) return "the kernel takes operands of one type alone";
  if (view.has_input(2) && view.constant(2) == nullptr) return "the kernel needs a constant bias";
  return reason_without_image(kernel_name(conv_family(view), view), device);
}

std::string reject_pooling(const ops::NodeView& view, const DeviceProperties& device) {
  if (std::string why = reject_shapes(view); !why.empty()) return why;
  return reason_without_image(kernel_name("pooling", view), device);
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const ops::NodeView& view, WeightStore& weights)
      : kernel_(kernel_name(conv_family(view), view)), elements_(view.output(0).elements()) {
    parameters_.geometry = geometry_of(view);
    parameters_.groups = static_cast<int>(view.integer("group"));
    if (view.constant(1) != nullptr) weights_ = pack_as_is(weights, *view.constant(1));
    if (view.has_input(2)) bias_ = pack_as_floats(weights, *view.constant(2));
  }
  void run(KernelContext& context) const override {
    if (elements_ == 0) return;
    ConvParameters p = parameters_;
    p.x = context.input(0).raw();
    p.weights = weights_ != nullptr ? weights_->data.get() : context.input(1).raw();
    p.bias = bias_ != nullptr ? reinterpret_cast<const float*>(bias_->data.get()) : nullptr;
    p.y = context.output(0).mutable_raw();
    stream_of(context).launch_with(kernel_, shape_of(elements_), p);
  }

 private:
  const std::string kernel_;
  const std::int64_t elements_;
  ConvParameters parameters_{};
  std::shared_ptr<const PackedWeights> weights_, bias_;
};

class PoolingKernel final : public Kernel {
 public:
  explicit PoolingKernel(const ops::NodeView& view)
      : kernel_(kernel_name("pooling", view)), elements_(view.output(0).elements()) {
    const std::vector<ops::WindowAxis> axes = axes_of(view);
    parameters_.geometry = geometry_of(view);
    for (std::size_t i = 0; i < axes.size(); ++i)
      parameters_.pad_end[static_cast<std::size_t>(kWindowAxes) - axes.size() + i] = static_cast<int>(axes[i].pad_end);
    const std::string_view op = view.op().name;
    parameters_.kind = op.ends_with("MaxPool")                                         ? PoolingKind::maximum
                       : op == "AveragePool" && view.integer("count_include_pad") != 0 ? PoolingKind::average_with_pads
                                                                                       : PoolingKind::average;
  }
  void run(KernelContext& context) const override {
    if (elements_ == 0) return;
    PoolingParameters p = parameters_;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_raw();
    stream_of(context).launch_with(kernel_, shape_of(elements_), p);
  }

 private:
  const std::string kernel_;
  const std::int64_t elements_;
  PoolingParameters parameters_{};
};

KernelPointer create_conv(const ops::NodeView& view, WeightStore& weights, const DeviceProperties&) {
  return std::make_unique<ConvKernel>(view, weights);
}

KernelPointer create_pooling(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<PoolingKernel>(view);
}

constexpr KernelEntry pooling_entry(std::string_view op) {
  return {.op = op, .name = "cuda_pooling", .reject_on = reject_pooling, .create_on = create_pooling};
}

}  // namespace

std::span<const KernelEntry> windows_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "Conv", .name = "cuda_conv_direct", .reject_on = reject_conv, .create_on = create_conv},
      {.op = "ConvTranspose", .name = "cuda_conv_transpose", .reject_on = reject_conv, .create_on = create_conv},
      pooling_entry("MaxPool"),
      pooling_entry("AveragePool"),
      pooling_entry("GlobalMaxPool"),
      pooling_entry("GlobalAveragePool"),
  };
  return table;
}

}  // namespace tessera::backends::cuda
