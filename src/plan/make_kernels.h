// Makes the kernels of a plan's steps. Making one may include packing its weights, which takes most of the time of
// planning; therefore all are made together, on several threads.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

// A step whose operand types are known, and the operands from which its kernel is chosen and made.
struct StepOperands {
  std::size_t step = 0;  // in Plan::steps
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;  // null if not known; they must outlive the call
};

// Chooses each step's kernel and makes it, on the threads of options.pool. Throws Error(unsupported) that lists every
// step without a kernel, or else the error of the first step that failed.
void make_kernels(Plan& plan, const std::vector<StepOperands>& operands, const backends::Device& device,
                  backends::WeightStore& weights, const PlanOptions& options);

// The step at the same place of the other plan, if its kernel sees the same node, types and constants as one of `step`
// would, which comes next in `plan`; else null.
const Step* find_same_step(const Plan& plan, const Step& step, const Plan& like);

// Gives the step the kernel of that one, with what was found out about it.
void take_kernel(Step& step, const Step& made);

}  // namespace tessera::plan
