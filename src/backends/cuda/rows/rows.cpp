#include "backends/cuda/rows/rows.h"

#include <limits>

#include "backends/cuda/kernels/rows/rows_parameters.h"
#include "backends/cuda/launch_types.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kRowThreads;
using tessera::cuda::NormalisationParameters;
using tessera::cuda::SoftmaxParameters;

// "softmax", "layer_normalisation", "rms_normalisation": the family's name in kernels.
std::string_view family_of(std::string_view op) {
  if (op == "LayerNormalization") return "layer_normalisation";
  return op == "RMSNormalization" ? "rms_normalisation" : "softmax";
}

std::string kernel_name(const ops::NodeView& view) {
  return fmt::format("{}_{}", family_of(view.op().name), suffix_of(view.input(0).dtype));
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const ops::TensorType& x = view.input(0);
  if (suffix_of(x.dtype).empty()) return "the kernel computes f32, f16 and bf16 alone";
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  if (rank == 0) return "the kernel needs an axis";
  const std::int64_t axis = view.integer("axis");
  if (axis != -1 && axis != rank - 1) return "the kernel works along the last axis alone";
  if (x.shape.back() > std::numeric_limits<int>::max() ||
      x.elements() / std::max<std::int64_t>(1, x.shape.back()) > std::numeric_limits<int>::max())
    return "the kernel counts rows and columns in 32 bits";
  for (std::size_t i = 1; i < view.output_count(); ++i) {
    if (view.wants_output(i)) return "the kernel has one output alone";
  }
  for (std::size_t i = 1; i < view.input_count(); ++i) {
    if (view.has_input(i) && (view.input(i).dtype != x.dtype || view.input(i).shape != Shape{x.shape.back()}))
      return "the kernel takes scale and bias of the data's type, one number per column";
  }
  return reason_without_image(kernel_name(view), device);
}

class RowsKernel final : public Kernel {
 public:
  explicit RowsKernel(const ops::NodeView& view)
      : kernel_(kernel_name(view)),
        normalises_(family_of(view.op().name) != "softmax"),
        logarithm_(view.op().name == "LogSoftmax"),
        epsilon_(normalises_ ? view.real("epsilon") : 0),
        columns_(view.input(0).shape.back()),
        rows_(columns_ == 0 ? 0 : view.input(0).elements() / columns_) {}

  void run(KernelContext& context) const override {
    if (rows_ == 0) return;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(rows_);
    shape.block.x = kRowThreads;
    const void* const x = context.input(0).raw();
    void* const y = context.output(0).mutable_raw();
    const auto columns = static_cast<int>(columns_);
    if (!normalises_) {
      stream_of(context).launch_with(kernel_, shape, SoftmaxParameters{x, y, columns, logarithm_});
      return;
    }
    const auto operand = [&](std::size_t i) { return context.has_input(i) ? context.input(i).raw() : nullptr; };
    stream_of(context).launch_with(kernel_, shape,
                                   NormalisationParameters{x, y, operand(1), operand(2), columns, epsilon_});
  }

 private:
  const std::string kernel_;
  const bool normalises_, logarithm_;
  const float epsilon_;
  const std::int64_t columns_, rows_;
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<RowsKernel>(view);
}

constexpr KernelEntry entry(std::string_view op, std::string_view name) {
  return {.op = op, .name = name, .reject_on = reject, .create_on = create, .in_place_inputs = 1};
}

}  // namespace

std::span<const KernelEntry> rows_kernel_table() {
  static constexpr KernelEntry table[] = {
      entry("Softmax", "cuda_softmax"),
      entry("LogSoftmax", "cuda_log_softmax"),
      entry("LayerNormalization", "cuda_layer_normalisation"),
      entry("RMSNormalization", "cuda_rms_normalisation"),
  };
  return table;
}

}  // namespace tessera::backends::cuda
