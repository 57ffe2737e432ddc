#include "backends/cuda/element_wise/element_wise.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "backends/cuda/element_wise/broadcast_axes.h"
#include "backends/cuda/element_wise/program_builder.h"
#include "backends/cuda/launch_types.h"
#include "base/numbers/half.h"
#include "ops/element_wise/activation.h"
#include "ops/element_wise/element_wise_unary.h"
#include "ops/element_wise/fused_activation.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::ElementInstruction;
using tessera::cuda::ElementProgram;
using tessera::cuda::kProgramAxes;

constexpr int kThreads = 256;
// Blocks beyond this many take their elements in turns.
constexpr std::int64_t kMostBlocks = 4096;

// The number of a constant of one element, of a type that the kernels compute in.
std::optional<float> number_of(const Tensor* constant) {
  if (constant == nullptr || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  if (constant->dtype() == DType::f32) return *constant->data<float>();
  if (constant->dtype() == DType::f16) return base::to_float(*constant->data<f16_t>());
  return constant->dtype() == DType::bf16 ? std::optional(base::to_float(*constant->data<bf16_t>())) : std::nullopt;
}

// The steps of an operator whose parameters are further inputs, which have to be constants; empty where they are not.
std::vector<ops::ElementWiseStep> bounded_step(const ops::NodeView& view, const ops::ElementWiseForm* form) {
  ops::ElementWiseStep step{form, {0, -1, -1}, {-INFINITY, INFINITY}};
  for (std::size_t i = 1; i < view.input_count() && i <= step.parameters.size(); ++i) {
    if (!view.has_input(i)) continue;
    const std::optional<float> bound = number_of(view.constant(i));
    if (!bound) return {};
    step.parameters[i - 1] = *bound;
  }
  return {step};
}

// The node as steps of a program; empty where it is none.
std::vector<ops::ElementWiseStep> steps_of(const ops::NodeView& view) {
  const std::string_view name = view.op().name;
  if (name == ops::element_wise.name) return ops::element_wise_steps(view);
  const bool by_tanh = name == ops::gelu.name && view.text("approximate") == "tanh";
  // Operators that the kernels compute, though fused programs do not hold them.
  static constexpr ops::ElementWiseForm kAlone[] = {{"Pow", ops::ElementWiseKind::binary, 10},
                                                    {"Sin", ops::ElementWiseKind::unary, 10},
                                                    {"Cos", ops::ElementWiseKind::unary, 10}};
  const auto* const alone = std::ranges::find(kAlone, name, &ops::ElementWiseForm::name);
  const ops::ElementWiseForm* const form =
      alone != std::end(kAlone) ? alone : ops::find_element_wise_form(by_tanh ? "GeluTanh" : name);
  if (form == nullptr) return {};
  if (name == ops::clip.name) return bounded_step(view, form);
  ops::ElementWiseStep step{form, {0, 1, 2}, {}};
  if (view.input_count() != step.operand_count()) return {};
  if (form->kind == ops::ElementWiseKind::activation) {
    const std::span<const std::string_view> names = ops::activation_parameters(form->name);
    for (std::size_t i = 0; i < names.size(); ++i) step.parameters[i] = view.real(names[i]);
  }
  return {step};
}

// The inputs that the program loads: all but those whose numbers its steps hold.
std::size_t operands_of(const ops::NodeView& view) {
  return view.op().name == ops::clip.name ? 1 : view.input_count();
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
    operands_ = operands_of(view);
    const std::vector<BroadcastAxis> axes = broadcast_axes(view, operands_);
    std::ranges::fill(program_.sizes, 1);
    const std::size_t first = kProgramAxes - axes.size();
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      program_.sizes[first + axis] = axes[axis].size;
      for (std::size_t i = 0; i < operands_; ++i) program_.strides[i][first + axis] = axes[axis].strides[i];
    }
  }

  void run(KernelContext& context) const override {
    if (program_.count == 0) return;
    ElementProgram program = program_;
    for (std::size_t i = 0; i < operands_; ++i) program.inputs[i] = context.input(i).raw();
    program.output = context.output(0).mutable_raw();
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min(kMostBlocks, (program.count + kThreads - 1) / kThreads));
    shape.block.x = kThreads;
    stream_of(context).launch_with(kernel_, shape, program);
  }

 private:
  const std::string kernel_;
  std::size_t operands_ = 0;
  ElementProgram program_{};
};

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.output(0).dtype;
  if (suffix_of(type).empty()) return "the kernel computes f32, f16 and bf16 alone";
  for (std::size_t i = 0; i < operands_of(view); ++i) {
    if (!view.has_input(i) || view.input(i).dtype != type) return "the kernel takes operands of one type alone";
  }
  const std::vector<ops::ElementWiseStep> steps = steps_of(view);
  if (steps.empty()) return "the kernel takes one or two operands, and constant bounds";
  if (!compile_program(steps, operands_of(view)))
    return "the kernel's programs lack a step of it, or are too short for it";
  if (broadcast_axes(view, operands_of(view)).size() > static_cast<std::size_t>(kProgramAxes))
    return fmt::format("the kernel broadcasts along at most {} axes", kProgramAxes);
  return reason_without_image(kernel_name(type), device);
}

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<ElementKernel>(view, *compile_program(steps_of(view), operands_of(view)));
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
         {"Add",         "Sub",       "Mul",  "Div",   "Min",   "Max",  "Abs",     "Neg",  "Reciprocal", "Sqrt",
          "Exp",         "Log",       "Erf",  "Floor", "Round", "Relu", "Sigmoid", "Tanh", "Swish",      "LeakyRelu",
          "HardSigmoid", "HardSwish", "Gelu", "Clip",  "Pow",   "Ceil", "Sin",     "Cos"})
      entries.push_back(entry(op));
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
