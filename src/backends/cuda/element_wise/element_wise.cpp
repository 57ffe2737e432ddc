#include "backends/cuda/element_wise/element_wise.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backends/cuda/element_wise/program_builder.h"
#include "backends/cuda/launch_types.h"
#include "ops/element_wise/fused_activation.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::ElementInstruction;
using tessera::cuda::ElementProgram;
using tessera::cuda::kProgramAxes;

constexpr int kThreads = 256;
// Blocks beyond this many take their elements in turns.
constexpr std::int64_t kMostBlocks = 4096;

// The node as steps of a program; empty where it is none.
std::vector<ops::ElementWiseStep> steps_of(const ops::NodeView& view) {
  if (view.op().name == ops::element_wise.name) return ops::element_wise_steps(view);
  const ops::ElementWiseForm* const form = ops::find_element_wise_form(view.op().name);
  ops::ElementWiseStep step{form, {0, 1, 2}, {}};
  if (form == nullptr || view.input_count() != step.operand_count()) return {};
  if (form->kind == ops::ElementWiseKind::activation) {
    const std::span<const std::string_view> names = ops::activation_parameters(form->name);
    for (std::size_t i = 0; i < names.size(); ++i) step.parameters[i] = view.real(names[i]);
  }
  return {step};
}

struct Axis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;  // by input
};

// The axes of the output with each input's strides along them, in elements and 0 where it is broadcast; neighbours that
// all operands pass through without a jump are one axis.
std::vector<Axis> axes_of(const Shape& output, std::span<const Shape> inputs) {
  std::vector<Axis> axes;
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    Axis next{output[axis], {}};
    for (const Shape& input : inputs) {
      const std::size_t missing = output.size() - input.size();
      std::int64_t stride = 0;
      if (axis >= missing && input[axis - missing] != 1) {
        stride = 1;
        for (std::size_t inner = axis - missing + 1; inner < input.size(); ++inner) stride *= input[inner];
      }
      next.strides.push_back(stride);
    }
    if (next.size == 1) continue;
    const auto continues = [&] {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (axes.back().strides[i] != next.strides[i] * next.size) return false;
      }
      return true;
    };
    if (!axes.empty() && continues()) {
      axes.back().size *= next.size;
      axes.back().strides = next.strides;
    } else {
      axes.push_back(std::move(next));
    }
  }
  return axes;
}

std::vector<Axis> axes_of(const ops::NodeView& view) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < view.input_count(); ++i) shapes.push_back(view.input(i).shape);
  return axes_of(view.output(0).shape, shapes);
}

std::string kernel_name(DType type) {
  return fmt::format("element_program_{}", suffix_of(type));
}

class ElementKernel final : public Kernel {
 public:
  ElementKernel(const ops::NodeView& view, const std::vector<ElementInstruction>& instructions)
      : kernel_(kernel_name(view.output(0).dtype)) {
    std::ranges::copy(instructions, program_.instructions);
    program_.length = static_cast<int>(instructions.size());
    program_.count = view.output(0).elements();
    const std::vector<Axis> axes = axes_of(view);
    std::ranges::fill(program_.sizes, 1);
    const std::size_t first = kProgramAxes - axes.size();
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      program_.sizes[first + axis] = axes[axis].size;
      for (std::size_t i = 0; i < view.input_count(); ++i) program_.strides[i][first + axis] = axes[axis].strides[i];
    }
  }

  void run(KernelContext& context) const override {
    if (program_.count == 0) return;
    ElementProgram program = program_;
    for (std::size_t i = 0; i < context.input_count(); ++i) program.inputs[i] = context.input(i).raw();
    program.output = context.output(0).mutable_raw();
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min(kMostBlocks, (program.count + kThreads - 1) / kThreads));
    shape.block.x = kThreads;
    stream_of(context).launch_with(kernel_, shape, program);
  }

 private:
  const std::string kernel_;
  ElementProgram program_{};
};

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.output(0).dtype;
  if (suffix_of(type).empty()) return "the kernel computes f32, f16 and bf16 alone";
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (!view.has_input(i) || view.input(i).dtype != type) return "the kernel takes operands of one type alone";
  }
  const std::vector<ops::ElementWiseStep> steps = steps_of(view);
  if (steps.empty()) return "the kernel takes one or two operands alone";
  if (!compile_program(steps, view.input_count()))
    return "the kernel's programs lack a step of it, or are too short for it";
  if (axes_of(view).size() > static_cast<std::size_t>(kProgramAxes))
    return fmt::format("the kernel broadcasts along at most {} axes", kProgramAxes);
  return reason_without_image(kernel_name(type), device);
}

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<ElementKernel>(view, *compile_program(steps_of(view), view.input_count()));
}

KernelEntry entry(std::string_view op) {
  return {.op = op,
          .name = "cuda_element_program",
          .reject_on = reject,
          .create_on = create,
          // Every element is read before it is written, and by the thread that writes it.
          .in_place_inputs = 1};
}

}  // namespace

std::span<const KernelEntry> element_wise_kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries{entry(ops::element_wise.name)};
    for (const std::string_view op :
         {"Add", "Sub", "Mul",   "Div",   "Min",  "Max",     "Abs",  "Neg",   "Reciprocal", "Sqrt",        "Exp",
          "Log", "Erf", "Floor", "Round", "Relu", "Sigmoid", "Tanh", "Swish", "LeakyRelu",  "HardSigmoid", "HardSwish"})
      entries.push_back(entry(op));
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
