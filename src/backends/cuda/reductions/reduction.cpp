#include "backends/cuda/reductions/reduction.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/kernels/reductions/reduction_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"
#include "ops/core/shape_arguments.h"
#include "ops/rows/reduction.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::ArgExtremeParameters;
using tessera::cuda::kReductionAxes;
using tessera::cuda::kReductionThreads;
using tessera::cuda::ReductionKind;
using tessera::cuda::ReductionParameters;

struct ReductionForm {
  std::string_view op, name;
  ReductionKind kind;
};
constexpr ReductionForm kForms[] = {
    {"ReduceSum", "cuda_reduce_sum", ReductionKind::sum},
    {"ReduceMean", "cuda_reduce_mean", ReductionKind::mean},
    {"ReduceMax", "cuda_reduce_max", ReductionKind::maximum},
    {"ReduceMin", "cuda_reduce_min", ReductionKind::minimum},
    {"ReduceProd", "cuda_reduce_prod", ReductionKind::product},
    {"ReduceL1", "cuda_reduce_l1", ReductionKind::l1},
    {"ReduceL2", "cuda_reduce_l2", ReductionKind::l2},
    {"ReduceSumSquare", "cuda_reduce_sum_square", ReductionKind::sum_of_squares},
    {"ReduceLogSum", "cuda_reduce_log_sum", ReductionKind::log_sum},
    {"ReduceLogSumExp", "cuda_reduce_log_sum_exp", ReductionKind::log_sum_exp},
};

// Sizes and strides of axes; neighbours that follow each other without a jump are joined.
class JoinedAxes {
 public:
  void add(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (!axes_.empty() && axes_.back().stride == stride * size) axes_.back() = {axes_.back().size * size, stride};
    else axes_.push_back({size, stride});
  }
  bool fits() const { return axes_.size() <= static_cast<std::size_t>(kReductionAxes); }
  void write(std::int64_t* sizes, std::int64_t* strides) const {
    std::fill_n(sizes, kReductionAxes, 1);
    const std::size_t first = static_cast<std::size_t>(kReductionAxes) - axes_.size();
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      sizes[first + i] = axes_[i].size;
      strides[first + i] = axes_[i].stride;
    }
  }

 private:
  struct Axis {
    std::int64_t size, stride;
  };
  std::vector<Axis> axes_;
};

std::optional<ReductionParameters> reduction_of(const ops::NodeView& view) {
  const Shape& x = view.input(0).shape;
  std::vector<std::int64_t> given;
  if (view.has_input(1)) given = ops::integers_of(*view.constant(1));
  const std::vector<std::int64_t> axes =
      ops::reduction_axes(given, static_cast<std::int64_t>(x.size()), view.integer("noop_with_empty_axes") != 0);
  const std::vector<std::int64_t> strides = dense_strides(x);
  ReductionParameters p{};
  JoinedAxes kept, reduced;
  p.results = p.reduced = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool is_reduced = std::ranges::find(axes, static_cast<std::int64_t>(i)) != axes.end();
    (is_reduced ? reduced : kept).add(x[i], strides[i]);
    (is_reduced ? p.reduced : p.results) *= x[i];
  }
  if (!kept.fits() || !reduced.fits()) return std::nullopt;
  kept.write(p.kept_sizes, p.kept_strides);
  reduced.write(p.reduced_sizes, p.reduced_strides);
  p.kind = std::ranges::find(kForms, view.op().name, &ReductionForm::op)->kind;
  // Neighbouring threads read neighbouring elements where the innermost axis is kept; short reductions leave most of a
  // block idle.
  const bool innermost_kept = !x.empty() && p.kept_strides[kReductionAxes - 1] == 1;
  p.by_threads = p.reduced < 64 || (innermost_kept && p.results >= 4096);
  return p;
}

LaunchShape grid_of(std::int64_t blocks) {
  // Blocks beyond this many take their results in turns.
  constexpr std::int64_t kMostBlocks = 8192;
  LaunchShape shape;
  shape.grid.x = static_cast<unsigned>(std::min(kMostBlocks, blocks));
  shape.block.x = kReductionThreads;
  return shape;
}

std::string kernel_name(std::string_view family, const ops::NodeView& view) {
  return fmt::format("{}_{}", family, suffix_of(view.input(0).dtype));
}

std::string reject_reduction(const ops::NodeView& view, const DeviceProperties& device) {
  if (suffix_of(view.input(0).dtype).empty()) return "the kernel reduces f32, f16 and bf16 alone";
  if (view.has_input(1) && view.constant(1) == nullptr) return "the kernel needs constant axes";
  if (!reduction_of(view)) return fmt::format("the kernel has {} axes", kReductionAxes);
  return reason_without_image(kernel_name("reduce", view), device);
}

class ReductionKernel final : public Kernel {
 public:
  explicit ReductionKernel(const ops::NodeView& view)
      : kernel_(kernel_name("reduce", view)), parameters_(*reduction_of(view)) {}
  void run(KernelContext& context) const override {
    ReductionParameters p = parameters_;
    if (p.results == 0) return;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_raw();
    stream_of(context).launch_with(kernel_, grid_of(p.by_threads ? blocks_of(p.results, kReductionThreads) : p.results),
                                   p);
  }

 private:
  const std::string kernel_;
  const ReductionParameters parameters_;
};

KernelPointer create_reduction(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<ReductionKernel>(view);
}

std::string reject_arg_extreme(const ops::NodeView& view, const DeviceProperties& device) {
  if (suffix_of(view.input(0).dtype).empty()) return "the kernel compares f32, f16 and bf16 alone";
  return reason_without_image(kernel_name("arg_extreme", view), device);
}

class ArgExtremeKernel final : public Kernel {
 public:
  explicit ArgExtremeKernel(const ops::NodeView& view) : kernel_(kernel_name("arg_extreme", view)) {
    const Shape& x = view.input(0).shape;
    const std::int64_t given = view.integer("axis");
    const auto axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(x.size()) : given);
    parameters_.length = x[axis];
    parameters_.inner = dense_strides(x)[axis];
    parameters_.results = view.output(0).elements();
    parameters_.largest = view.op().name == "ArgMax";
    parameters_.last = view.integer("select_last_index") != 0;
  }
  void run(KernelContext& context) const override {
    ArgExtremeParameters p = parameters_;
    if (p.results == 0) return;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_data<std::int64_t>();
    stream_of(context).launch_with(kernel_, grid_of(blocks_of(p.results, kReductionThreads / 32)), p);
  }

 private:
  const std::string kernel_;
  ArgExtremeParameters parameters_{};
};

KernelPointer create_arg_extreme(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<ArgExtremeKernel>(view);
}

}  // namespace

std::span<const KernelEntry> reduction_kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries;
    for (const ReductionForm& form : kForms)
      entries.push_back(
          {.op = form.op, .name = form.name, .reject_on = reject_reduction, .create_on = create_reduction});
    for (const std::string_view op : {"ArgMax", "ArgMin"})
      entries.push_back(
          {.op = op, .name = "cuda_arg_extreme", .reject_on = reject_arg_extreme, .create_on = create_arg_extreme});
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
