// Runs a kernel on one node outside any plan, with operands of its own: to time it, or to count its operations.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"

namespace tessera::plan {

class KernelTrial {
 public:
  // Makes the kernel of `entry`, one of the host device's. `inputs` has one value per input of the view, empty for an
  // absent one, with the view's types, which must be concrete. The view's node and everything else given by reference
  // must outlive the trial. Throws the errors of the kernel's factory, and Error(over_budget).
  KernelTrial(const backends::Device& device, const backends::KernelEntry& entry, const ops::NodeView& view,
              std::vector<Value> inputs, backends::WeightStore& weights, const backends::ExecutionResources& resources);

  // Computes outputs() anew, in the same memory. Throws the errors of the kernel.
  void run();
  const std::vector<Value>& outputs() const { return outputs_; }

 private:
  const ir::Node& node_;
  const ops::OpDef& op_;
  const backends::ExecutionResources& resources_;
  std::unique_ptr<backends::Kernel> kernel_;
  std::vector<Value> inputs_, outputs_;
  std::vector<const Value*> operands_;
  std::vector<ir::ValueType> output_types_;
  Tensor scratch_;
};

}  // namespace tessera::plan
