#include "plan/kernel_trial.h"

#include "backends/transient_memory.h"

namespace tessera::plan {

KernelTrial::KernelTrial(const backends::Device& device, const backends::KernelEntry& entry, const ops::NodeView& view,
                         std::vector<Value> inputs, backends::WeightStore& weights,
                         const backends::ExecutionResources& resources)
    : node_(view.node()),
      op_(view.op()),
      resources_(resources),
      kernel_(backends::make_kernel(entry, view, weights, device.properties())),
      inputs_(std::move(inputs)) {
  for (const Value& input : inputs_) operands_.push_back(input.has_value() ? &input : nullptr);
  for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
    const ops::TensorType& type = view.output(i);
    const bool wanted = node_.outputs[i].valid() && type.dtype != DType::undefined;
    output_types_.push_back(wanted ? ir::ValueType::tensor(type.dtype, type.shape) : ir::ValueType{});
    outputs_.push_back(wanted ? Value(resources.allocate(type.dtype, type.shape)) : Value());
  }
  scratch_ = resources.allocate(DType::u8, {kernel_->scratch_bytes()});
}

void KernelTrial::run() {
  backends::KernelContext context(node_, op_, operands_, outputs_, output_types_, resources_);
  context.set_scratch(static_cast<std::byte*>(scratch_.mutable_raw()));
  backends::run_kernel(*kernel_, context);
}

}  // namespace tessera::plan
