#include "ops/movement/pad.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/kernels/movement/pad_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/pad.h"
#include "backends/cuda/movement/strided_copy.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kPadAxes;
using tessera::cuda::kPadThreads;
using tessera::cuda::PaddingMode;
using tessera::cuda::PadParameters;

PaddingMode mode_of(ops::PadMode mode) {
  switch (mode) {
    case ops::PadMode::reflect:
      return PaddingMode::reflect;
    case ops::PadMode::edge:
      return PaddingMode::edge;
    case ops::PadMode::wrap:
      return PaddingMode::wrap;
    case ops::PadMode::constant:
      break;
  }
  return PaddingMode::constant;
}

std::string kernel_name(const ops::NodeView& view) {
  return fmt::format("pad_{}", bits_of(view.input(0).dtype));
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.input(0).dtype;
  if (copy_kernel_name(type).empty()) return fmt::format("the kernel does not move {}", name_of(type));
  if (view.input(0).shape.size() > static_cast<std::size_t>(kPadAxes))
    return fmt::format("the kernel has {} axes", kPadAxes);
  for (const std::size_t i : {1, 3}) {
    if (view.has_input(i) && view.constant(i) == nullptr) return "the kernel needs constant pads and axes";
  }
  if (view.input(0).elements() == 0 && view.output(0).elements() != 0) return "the kernel needs elements";
  return reason_without_image(kernel_name(view), device);
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const ops::NodeView& view) : kernel_(kernel_name(view)) {
    const Shape &x = view.input(0).shape, &y = view.output(0).shape;
    const auto axes = view.has_input(3) ? std::optional(ops::integers_of(*view.constant(3))) : std::nullopt;
    const ops::PadAmounts amounts =
        ops::pad_amounts(ops::integers_of(*view.constant(1)), axes, static_cast<std::int64_t>(x.size()));
    for (std::int64_t* const sizes : {parameters_.x_sizes, parameters_.y_sizes}) std::fill_n(sizes, kPadAxes, 1);
    const std::vector<std::int64_t> strides = dense_strides(x);
    const std::size_t first = static_cast<std::size_t>(kPadAxes) - x.size();
    for (std::size_t i = 0; i < x.size(); ++i) {
      parameters_.x_sizes[first + i] = x[i];
      parameters_.y_sizes[first + i] = y[i];
      parameters_.x_strides[first + i] = strides[i];
      parameters_.begin[first + i] = amounts.begin[i];
    }
    parameters_.mode = mode_of(ops::pad_mode(view));
    parameters_.count = view.output(0).elements();
  }
  void run(KernelContext& context) const override {
    PadParameters p = parameters_;
    if (p.count == 0) return;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_raw();
    p.value = context.has_input(2) ? context.input(2).raw() : nullptr;
    // Blocks beyond this many take their elements in turns.
    constexpr std::int64_t kMostBlocks = 4096;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(p.count, kPadThreads)));
    shape.block.x = kPadThreads;
    stream_of(context).launch_with(kernel_, shape, p);
  }

 private:
  const std::string kernel_;
  PadParameters parameters_{};
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<PadKernel>(view);
}

}  // namespace

std::span<const KernelEntry> pad_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "Pad", .name = "cuda_pad", .reject_on = reject, .create_on = create},
  };
  return table;
}

}  // namespace tessera::backends::cuda
