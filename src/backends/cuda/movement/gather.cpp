#include "backends/cuda/movement/gather.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <variant>

#include "backends/cuda/kernels/movement/gather_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::GatherElementsParameters;
using tessera::cuda::GatherParameters;
using tessera::cuda::kGatherAxes;
using tessera::cuda::kGatherThreads;

// The launch that computes an operator, without addresses.
struct GatherPlan {
  std::string kernel;
  bool scatters = false;  // the output begins as a copy of input 0, and input 2 is scattered over it
  std::variant<GatherParameters, GatherElementsParameters> parameters;
};

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

// Tuples that index the axes of data after the first `batch` ones.
std::optional<GatherParameters> tuples_of(const ops::NodeView& view, std::size_t batch) {
  const Shape &data = view.input(0).shape, &indices = view.input(1).shape;
  const auto width = static_cast<std::size_t>(indices.back());
  if (width > static_cast<std::size_t>(kGatherAxes)) return std::nullopt;
  const std::vector<std::int64_t> strides = dense_strides(data);
  GatherParameters p{};
  p.width = static_cast<int>(width);
  p.tuples = product(indices, batch, indices.size() - 1);
  p.inner = product(data, batch + width, data.size());
  p.count = product(data, 0, batch) * p.tuples * p.inner;
  p.data_outer_stride = product(data, batch, data.size());
  p.index_outer_stride = p.tuples * indices.back();
  for (std::size_t i = 0; i < width; ++i) {
    p.sizes[i] = data[batch + i];
    p.strides[i] = strides[batch + i];
  }
  return p;
}

std::size_t axis_of(const ops::NodeView& view) {
  const std::int64_t axis = view.integer("axis"), rank = static_cast<std::int64_t>(view.input(0).shape.size());
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

GatherParameters rows_of(const ops::NodeView& view) {
  const Shape& data = view.input(0).shape;
  const std::size_t axis = axis_of(view);
  GatherParameters p{};
  p.width = 1;
  p.tuples = view.input(1).elements();
  p.inner = product(data, axis + 1, data.size());
  p.count = product(data, 0, axis) * p.tuples * p.inner;
  p.data_outer_stride = data[axis] * p.inner;
  p.sizes[0] = data[axis];
  p.strides[0] = p.inner;
  return p;
}

std::optional<GatherElementsParameters> elements_of(const ops::NodeView& view) {
  const Shape &data = view.input(0).shape, &indices = view.input(1).shape;
  if (data.size() > static_cast<std::size_t>(kGatherAxes)) return std::nullopt;
  const std::size_t axis = axis_of(view), first = static_cast<std::size_t>(kGatherAxes) - data.size();
  const std::vector<std::int64_t> strides = dense_strides(data);
  GatherElementsParameters p{};
  std::ranges::fill(p.sizes, 1);
  for (std::size_t i = 0; i < data.size(); ++i) {
    p.sizes[first + i] = indices[i];
    p.strides[first + i] = i == axis ? 0 : strides[i];
  }
  p.axis_size = data[axis];
  p.axis_stride = strides[axis];
  p.count = view.input(1).elements();
  return p;
}

std::optional<GatherPlan> plan_of(const ops::NodeView& view) {
  const std::string_view op = view.op().name;
  GatherPlan plan{.scatters = op.starts_with("Scatter")};
  if (op == "Gather") {
    plan.parameters = rows_of(view);
  } else if (op.ends_with("ND")) {
    const auto p = tuples_of(view, plan.scatters ? 0 : static_cast<std::size_t>(view.integer("batch_dims")));
    if (!p) return std::nullopt;
    plan.parameters = *p;
  } else {
    const auto p = elements_of(view);
    if (!p) return std::nullopt;
    plan.parameters = *p;
  }
  const bool by_elements = std::holds_alternative<GatherElementsParameters>(plan.parameters);
  plan.kernel = fmt::format("{}{}_{}", plan.scatters ? "scatter" : "gather", by_elements ? "_elements" : "",
                            bits_of(view.input(0).dtype));
  std::visit([&](auto& p) { p.wide = view.input(1).dtype == DType::i64; }, plan.parameters);
  return plan;
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.input(0).dtype;
  if (copy_kernel_name(type).empty()) return fmt::format("the kernel does not move {}", name_of(type));
  const bool scatters = view.op().name.starts_with("Scatter");
  if (scatters && view.text("reduction") != "none") return "the kernel does not combine elements";
  const std::optional<GatherPlan> plan = plan_of(view);
  if (!plan) return fmt::format("the kernel has {} axes", kGatherAxes);
  return reason_without_image(plan->kernel, device);
}

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const ops::NodeView& view) : plan_(*plan_of(view)) {}

  void run(KernelContext& context) const override {
    CudaStream& stream = stream_of(context);
    if (plan_.scatters && context.output(0).raw() != context.input(0).raw())
      stream.copy_within(context.output(0).mutable_raw(), context.input(0).raw(), context.input(0).bytes());
    std::visit(
        [&](auto p) {
          if (p.count == 0) return;
          p.from = context.input(plan_.scatters ? 2 : 0).raw();
          p.to = context.output(0).mutable_raw();
          p.indices = context.input(1).raw();
          p.fault = stream.index_fault();
          // Blocks beyond this many take their elements in turns.
          constexpr std::int64_t kMostBlocks = 4096;
          LaunchShape shape;
          shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(p.count, kGatherThreads)));
          shape.block.x = kGatherThreads;
          stream.launch_with(plan_.kernel, shape, p);
        },
        plan_.parameters);
  }

 private:
  const GatherPlan plan_;
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<GatherKernel>(view);
}

constexpr KernelEntry entry(std::string_view op, std::string_view name, std::uint32_t in_place_inputs = 0) {
  return {.op = op, .name = name, .reject_on = reject, .create_on = create, .in_place_inputs = in_place_inputs};
}

}  // namespace

std::span<const KernelEntry> gather_kernel_table() {
  static constexpr KernelEntry table[] = {
      entry("Gather", "cuda_gather"),
      entry("GatherND", "cuda_gather"),
      entry("GatherElements", "cuda_gather_elements"),
      entry("ScatterND", "cuda_scatter", 1),
      entry("ScatterElements", "cuda_scatter_elements", 1),
  };
  return table;
}

}  // namespace tessera::backends::cuda
