// A kernel on one node outside any plan, with operands of its own: to time it, or to count what it does.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"

namespace tessera::plan {

class KernelTrial {
 public:
  // Makes the kernel. `inputs`: one an input of the view, empty for an absent one, of the view's types, which are
  // concrete. The view's node and all else given by reference outlive the trial. Throws what making the kernel throws,
  // and Error(over_budget).
  KernelTrial(const backends::KernelEntry& entry, const ops::NodeView& view, std::vector<Value> inputs,
              backends::WeightStore& weights, const backends::ExecutionResources& resources);

  // Overwrites outputs(). Throws what the kernel throws.
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
