// Kernels as they run in a training step, where weights are variables: no operand is known when a kernel is made.
#pragma once

#include <string>

#include "backends/backend.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test {

// Device "cpu" with one kernel for an operator, which is made without the values of its operands.
class VariableOperands final : public backends::Device {
 public:
  VariableOperands(const std::string& op, const std::string& kernel);
  std::string_view name() const override { return "variable operands"; }
  std::span<const backends::KernelEntry* const> kernels_for(std::string_view op) const override;
  backends::KernelPointer make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                      backends::WeightStore& weights) const override;

 private:
  const backends::Device& cpu_;
  std::string op_;
  backends::KernelEntry entry_;
  const backends::KernelEntry* pointer_ = &entry_;
};

// Fails the test unless each kernel of device "cpu" that takes the call with variable operands gives what the reference
// gives, for each instruction set that this machine has, with the same bits for 1, 2 and 3 threads; and unless there is
// one. `epsilons`: the tolerance, four times as much where the kernel's name has "winograd" in it.
void expect_variables_match_reference(const OpCall& call, double epsilons);

}  // namespace tessera::test
