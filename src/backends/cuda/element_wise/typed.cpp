#include "backends/cuda/element_wise/typed.h"

#include <algorithm>

#include "backends/cuda/element_wise/broadcast_axes.h"
#include "backends/cuda/kernels/element_wise/typed_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::CastParameters;
using tessera::cuda::kTypedAxes;
using tessera::cuda::kTypedThreads;
using tessera::cuda::TypedOperation;
using tessera::cuda::TypedParameters;

struct TypedForm {
  std::string_view op;
  std::string_view family;  // of kernels: "compare", "logic", "integer" or "choose"
  TypedOperation operation;
};
constexpr TypedForm kForms[] = {
    {"Equal", "compare", TypedOperation::equal},
    {"Less", "compare", TypedOperation::less},
    {"LessOrEqual", "compare", TypedOperation::less_or_equal},
    {"Greater", "compare", TypedOperation::greater},
    {"GreaterOrEqual", "compare", TypedOperation::greater_or_equal},
    {"IsNaN", "compare", TypedOperation::not_a_number},
    {"And", "logic", TypedOperation::both},
    {"Or", "logic", TypedOperation::either},
    {"Xor", "logic", TypedOperation::different},
    {"Not", "logic", TypedOperation::inverse},
    {"Add", "integer", TypedOperation::add},
    {"Sub", "integer", TypedOperation::subtract},
    {"Mul", "integer", TypedOperation::multiply},
    {"Min", "integer", TypedOperation::minimum},
    {"Max", "integer", TypedOperation::maximum},
    {"Where", "choose", TypedOperation::choose},
};

const TypedForm& form_of(const ops::NodeView& view) {
  return *std::ranges::find(kForms, view.op().name, &TypedForm::op);
}

// The kernel for the node's types; "" where there is none.
std::string kernel_name(const ops::NodeView& view) {
  const std::string_view family = form_of(view).family;
  const DType type = view.input(view.input_count() - 1).dtype;
  if (family == "choose") {
    const std::string copy = copy_kernel_name(type);
    return copy.empty() ? "" : fmt::format("choose_{}", bits_of(type));
  }
  if (family == "logic") return type == DType::boolean ? "logic_8" : "";
  const bool is_integer = type == DType::i32 || type == DType::i64;
  const std::string_view suffix = is_integer ? name_of(type) : family == "compare" ? suffix_of(type) : "";
  return suffix.empty() ? "" : fmt::format("{}_{}", family, suffix);
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const std::string kernel = kernel_name(view);
  if (kernel.empty()) return fmt::format("the kernel does not compute in {}", name_of(view.input(0).dtype));
  const TypedOperation operation = form_of(view).operation;
  const bool is_unary = operation == TypedOperation::inverse || operation == TypedOperation::not_a_number;
  const std::size_t operands = operation == TypedOperation::choose ? 3 : is_unary ? 1 : 2;
  if (view.input_count() != operands) return fmt::format("the kernel takes {} operands", operands);
  if (broadcast_axes(view, operands).size() > static_cast<std::size_t>(kTypedAxes))
    return fmt::format("the kernel broadcasts along at most {} axes", kTypedAxes);
  return reason_without_image(kernel, device);
}

LaunchShape grid_of(std::int64_t elements) {
  // Blocks beyond this many take their elements in turns.
  constexpr std::int64_t kMostBlocks = 4096;
  LaunchShape shape;
  shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(elements, kTypedThreads)));
  shape.block.x = kTypedThreads;
  return shape;
}

class TypedKernel final : public Kernel {
 public:
  explicit TypedKernel(const ops::NodeView& view) : kernel_(kernel_name(view)) {
    parameters_.operation = form_of(view).operation;
    parameters_.count = view.output(0).elements();
    const std::vector<BroadcastAxis> axes = broadcast_axes(view, view.input_count());
    std::ranges::fill(parameters_.sizes, 1);
    const std::size_t first = static_cast<std::size_t>(kTypedAxes) - axes.size();
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      parameters_.sizes[first + axis] = axes[axis].size;
      for (std::size_t i = 0; i < view.input_count(); ++i) parameters_.strides[i][first + axis] = axes[axis].strides[i];
    }
  }
  void run(KernelContext& context) const override {
    TypedParameters p = parameters_;
    if (p.count == 0) return;
    // Operands that the operator does not have are read, and ignored.
    for (std::size_t i = 0; i < std::size(p.inputs); ++i)
      p.inputs[i] = context.input(std::min(i, context.input_count() - 1)).raw();
    p.output = context.output(0).mutable_raw();
    stream_of(context).launch_with(kernel_, grid_of(p.count), p);
  }

 private:
  const std::string kernel_;
  TypedParameters parameters_{};
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<TypedKernel>(view);
}

std::string reject_cast(const ops::NodeView& view, const DeviceProperties& device) {
  const DType from = view.input(0).dtype, to = view.output(0).dtype;
  if (!element_type_of(from) || !element_type_of(to))
    return fmt::format("the kernel does not convert {} to {}", name_of(from), name_of(to));
  if (from == DType::f64 && bits_of(to) == 16) return "the kernel would round f64 twice";
  return reason_without_image("convert_elements", device);
}

class CastKernel final : public Kernel {
 public:
  explicit CastKernel(const ops::NodeView& view)
      : parameters_{.x = nullptr,
                    .y = nullptr,
                    .count = view.output(0).elements(),
                    .from = *element_type_of(view.input(0).dtype),
                    .to = *element_type_of(view.output(0).dtype)} {}
  void run(KernelContext& context) const override {
    CastParameters p = parameters_;
    if (p.count == 0) return;
    p.x = context.input(0).raw();
    p.y = context.output(0).mutable_raw();
    stream_of(context).launch_with("convert_elements", grid_of(p.count), p);
  }

 private:
  const CastParameters parameters_;
};

KernelPointer create_cast(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<CastKernel>(view);
}

}  // namespace

std::span<const KernelEntry> typed_kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries;
    for (const TypedForm& form : kForms)
      entries.push_back({.op = form.op, .name = "cuda_typed_elements", .reject_on = reject, .create_on = create});
    for (const std::string_view op : {"Cast", "CastLike"})
      entries.push_back(
          {.op = op, .name = "cuda_convert_elements", .reject_on = reject_cast, .create_on = create_cast});
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
