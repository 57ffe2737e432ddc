#include "backends/cuda/rows/top_k.h"

#include <algorithm>

#include "backends/cuda/kernels/rows/top_k_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kTopKLength;
using tessera::cuda::kTopKShared;
using tessera::cuda::kTopKThreads;
using tessera::cuda::TopKParameters;

// "top_k_f32"; "" for types that no kernel compares.
std::string top_k_kernel_name(DType type) {
  const std::string_view suffix = type == DType::i32 ? "i32" : suffix_of(type);
  return suffix.empty() ? "" : fmt::format("top_k_{}", suffix);
}

std::size_t top_k_axis(const ops::NodeView& view) {
  const auto rank = static_cast<std::int64_t>(view.input(0).shape.size());
  return static_cast<std::size_t>(ops::normalise_axis(view.integer("axis"), rank));
}

std::string reject_top_k(const ops::NodeView& view, const DeviceProperties& device) {
  const ops::TensorType& x = view.input(0);
  const std::string kernel = top_k_kernel_name(x.dtype);
  if (kernel.empty()) return "the kernel compares f32, f16, bf16 and i32 alone";
  if (view.constant(1) == nullptr) return "the kernel needs a constant K";
  if (x.shape[top_k_axis(view)] > kTopKLength) return "the kernel counts at most 2^30 elements along the axis";
  return reason_without_image(kernel, device);
}

class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const ops::NodeView& view) : kernel_(top_k_kernel_name(view.input(0).dtype)) {
    const Shape& x = view.input(0).shape;
    const std::size_t axis = top_k_axis(view);
    parameters_.length = static_cast<unsigned>(x[axis]);
    parameters_.k = static_cast<unsigned>(ops::single_integer(*view.constant(1), "K"));
    parameters_.inner = dense_strides(x)[axis];
    parameters_.lines = x[axis] == 0 ? 0 : view.input(0).elements() / x[axis];
    parameters_.largest = view.integer("largest") != 0;
    // Blocks beyond this many take their lines in turns.
    const std::int64_t most_blocks = sorts_in_scratch() ? 512 : 8192;
    blocks_ = std::min(most_blocks, parameters_.lines);
  }

  std::int64_t scratch_bytes() const override {
    return sorts_in_scratch() ? blocks_ * parameters_.k * static_cast<std::int64_t>(sizeof(std::uint64_t)) : 0;
  }

  void run(KernelContext& context) const override {
    TopKParameters p = parameters_;
    if (p.lines == 0 || p.k == 0) return;
    p.x = context.input(0).raw();
    if (context.wants_output(0)) p.values = context.output(0).mutable_raw();
    if (context.wants_output(1)) p.indices = context.output(1).mutable_data<std::int64_t>();
    if (sorts_in_scratch()) p.ranks = reinterpret_cast<std::uint64_t*>(context.scratch());
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(blocks_);
    shape.block.x = kTopKThreads;
    stream_of(context).launch_with(kernel_, shape, p);
  }

 private:
  bool sorts_in_scratch() const { return parameters_.k > kTopKShared; }

  const std::string kernel_;
  TopKParameters parameters_{};
  std::int64_t blocks_ = 0;
};

KernelPointer create_top_k(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<TopKKernel>(view);
}

}  // namespace

std::span<const KernelEntry> top_k_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "TopK", .name = "cuda_top_k", .reject_on = reject_top_k, .create_on = create_top_k},
  };
  return table;
}

}  // namespace tessera::backends::cuda
