#include "support/variable_operands.h"

#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/cpu/machine/simd.h"
#include "support/against_reference.h"

namespace tessera::test {
namespace {

// body(the view without the operands' values)
template <typename Body>
auto without_constants(const ops::NodeView& view, Body body) {
  std::vector<ops::TensorType> inputs, outputs;
  for (std::size_t i = 0; i < view.input_count(); ++i) inputs.push_back(view.input(i));
  for (std::size_t i = 0; i < view.output_count(); ++i) outputs.push_back(view.output(i));
  return body(ops::NodeView(view.node(), view.op(), inputs, outputs, {}));
}

}  // namespace

VariableOperands::VariableOperands(const std::string& op, const std::string& kernel)
    : cpu_(backends::find_device("cpu")), op_(op) {
  for (const backends::KernelEntry* entry : cpu_.kernels_for(op)) {
    if (entry->name == kernel) entry_ = *entry;
  }
  entry_.avoid = nullptr;
}

std::span<const backends::KernelEntry* const> VariableOperands::kernels_for(std::string_view op) const {
  return op == op_ ? std::span(&pointer_, 1) : cpu_.kernels_for(op);
}

backends::KernelPointer VariableOperands::make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                                      backends::WeightStore& weights) const {
  return without_constants(view,
                           [&](const ops::NodeView& stripped) { return cpu_.make_kernel(entry, stripped, weights); });
}

void expect_variables_match_reference(const OpCall& call, double epsilons) {
  const Tensor expected = run_op_tensor(call, "reference", 1);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const backends::cpu::ScopedIsa scoped(isa);
    if (backends::cpu::active_isa() != isa) continue;
    bool found = false;
    for (const std::string& kernel : accepting_cpu_kernels(call)) {
      // One that keeps its weights packed.
      if (kernel.starts_with("reference") || kernel == "cpu_channels_last_conv_transpose") continue;
      found = true;
      SCOPED_TRACE(kernel + ", instruction set " + std::to_string(static_cast<int>(isa)));
      const VariableOperands device(call.op, kernel);
      const Tensor one = run_op_on(device, call, 1)[0].tensor();
      const double digits = kernel.find("winograd") != std::string::npos ? 4 : 1;
      EXPECT_TRUE(close_to(one, expected, Tolerance::epsilons(DType::f32, digits * epsilons)));
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(run_op_on(device, call, threads)[0].tensor(), one));
    }
    EXPECT_TRUE(found) << "no fast kernel accepts";
  }
}

}  // namespace tessera::test
