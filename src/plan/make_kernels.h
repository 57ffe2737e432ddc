// The kernels of a plan's steps. Making one may mean packing its weights, which takes most of the time of planning: all
// are made at once.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

// A step whose operand types are known, with what its kernel is chosen and made by.
struct StepOperands {
  std::size_t step = 0;  // in Plan::steps
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;  // null where not known; they outlive the call
};

// Chooses each step's kernel and makes it, on the threads of options.pool. Throws Error: unsupported with every step
// that no kernel takes, or else that of the first step that failed.
void make_kernels(Plan& plan, const std::vector<StepOperands>& operands, const backends::Device& device,
                  backends::WeightStore& weights, const PlanOptions& options);

}  // namespace tessera::plan
