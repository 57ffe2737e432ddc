#include <algorithm>

#include "backends/transient_memory.h"
#include "base/error.h"
#include "runtime/run/plan_run.h"

namespace tessera::runtime {

using backends::MemorySpace;
using plan::Place;
using plan::Slot;
using plan::Step;
using plan::StepKind;

// A step on the host cannot read an input that is device memory; nor can the caller as an output of the run.
void PlanRun::bring_inputs_to_host() {
  for (const std::int32_t input : plan_.input_slots) {
    if (!value(input).is_tensor()) continue;
    const Tensor& tensor = value(input).tensor();
    if (tensor.dtype() == DType::string || tensor.bytes() == 0 || tensor.is_deferred()) continue;
    if (!device_->is_on_device(tensor.raw()) || !is_read_on_host(input)) continue;
    Tensor host = environment_.results->allocate(tensor.dtype(), tensor.shape());
    device_->keep(value(input));
    device_->copy(host.mutable_raw(), tensor.raw(), tensor.bytes());
    device_->synchronise();
    value(input) = std::move(host);
  }
}

bool PlanRun::is_read_on_host(std::int32_t index) const {
  const auto reads = [&](const Step& step) {
    return step.kind != StepKind::copy && std::ranges::find(step.inputs, index) != step.inputs.end();
  };
  return std::ranges::any_of(plan_.steps, reads) ||
         std::ranges::find(plan_.output_slots, index) != plan_.output_slots.end() ||
         std::ranges::find(plan_.update_slots, index) != plan_.update_slots.end();
}

bool PlanRun::is_copied(std::int32_t index) const {
  return std::ranges::any_of(
      plan_.steps, [&](const Step& step) { return step.kind == StepKind::copy && step.first_output == index; });
}

void PlanRun::run_copy(std::size_t index) {
  const Step& step = plan_.steps[index];
  const Slot& to = slot(step.first_output);
  if (to.place == Place::result) value(step.first_output) = storage_for(step.first_output, step.output_types[0]);
  const Value& source = value(step.inputs[0]);
  require(source.is_tensor() && source.tensor().bytes() == value(step.first_output).tensor().bytes(),
          ErrorKind::invalid_model, "{} is expected to be {}", ir::to_string(to.type),
          source.is_tensor() ? to_string(source.tensor().shape()) : "a tensor");
  Tensor result = value(step.first_output).tensor();
  device_->copy(result.mutable_raw(), source.tensor().raw(), result.bytes(), index);
  device_->mark(step, index);
  const Place place = slot(step.inputs[0]).place;
  if (place == Place::dynamic || place == Place::result || place == Place::alias) device_->keep(source);
}

void PlanRun::enqueue_kernel(std::size_t index) {
  const Step& step = plan_.steps[index];
  const std::span<Value> outputs(state_.values.data() + step.first_output, static_cast<std::size_t>(step.output_count));
  if (gives_nothing(step, outputs)) return;
  backends::KernelContext context(plan_.graph.node(step.node), *step.op,
                                  {state_.operands.data() + state_.first_operand[index], step.inputs.size()}, outputs,
                                  step.output_types, device_->resources());
  if (step.scratch_bytes > 0) context.set_scratch(state_.device->arena.get() + step.scratch_offset);
  backends::run_kernel(*step.kernel, context);
}

void PlanRun::replay_steps() {
  device_->replay([&] {
    for (std::size_t i = plan_.first_recordable; i < plan_.end_recordable; ++i) {
      if (plan_.steps[i].kind == StepKind::kernel) enqueue_kernel(i);
    }
  });
}

}  // namespace tessera::runtime
