#include <algorithm>
#include <cstring>

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

void PlanRun::provide_storage(const Step& step) {
  if (step.kind == StepKind::alias) return make_view(step);
  for (std::int32_t k = 0; k < step.output_count; ++k) {
    const std::int32_t output = step.first_output + k;
    if (slot(output).place == Place::result && !value(output).has_value())
      value(output) = storage_for(output, step.output_types[static_cast<std::size_t>(k)]);
  }
}

void PlanRun::stage(const Step& step) {
  const Value& source = value(step.inputs[0]);
  require(source.is_tensor() && source.tensor().bytes() == value(step.first_output).tensor().bytes(),
          ErrorKind::invalid_model, "{} is expected to be {}", ir::to_string(slot(step.first_output).type),
          source.is_tensor() ? to_string(source.tensor().shape()) : "a tensor");
  if (step.space == MemorySpace::host || source.tensor().bytes() == 0) return;
  const void* const from = source.tensor().raw();
  std::byte* const staging = device_->staging(step);
  if (staging != nullptr && !device_->is_on_device(from))
    std::memcpy(staging, from, static_cast<std::size_t>(source.tensor().bytes()));
}

void PlanRun::enqueue_copy(const Step& step) {
  Tensor result = value(step.first_output).tensor();
  if (result.bytes() == 0) return;
  const void* from = value(step.inputs[0]).tensor().raw();
  void* to = result.mutable_raw();
  std::byte* const staging = device_->staging(step);
  if (staging != nullptr && !device_->is_on_device(from)) from = staging;
  if (staging != nullptr && !device_->is_on_device(to)) to = staging;
  device_->copy(to, from, result.bytes(), static_cast<std::size_t>(&step - plan_.steps.data()));
}

void PlanRun::follow_copy(std::size_t index) {
  const Step& step = plan_.steps[index];
  device_->mark(step, index);
  const Tensor& result = value(step.first_output).tensor();
  if (device_->staging(step) != nullptr && result.bytes() > 0 && !device_->is_on_device(result.raw()))
    device_->expect(index, step, result);
  const Place place = slot(step.inputs[0]).place;
  if (place == Place::dynamic || place == Place::result || place == Place::alias) device_->keep(value(step.inputs[0]));
}

void PlanRun::run_copy(std::size_t index) {
  const Step& step = plan_.steps[index];
  provide_storage(step);
  stage(step);
  enqueue_copy(step);
  follow_copy(index);
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

std::vector<const void*> PlanRun::changing_addresses(const plan::DeviceSegment& segment) const {
  std::vector<const void*> addresses{state_.device->arena.get(), state_.device->staging.get()};
  const auto add = [&](std::int32_t index) {
    if (index < 0) return;
    const Slot& own = slot(index);
    const Place place = own.place == Place::alias ? slot(own.source).place : own.place;
    if (place == Place::arena || place == Place::constant || place == Place::none) return;
    // Values in host memory are copied through staging memory.
    const void* const address = state_.values[static_cast<std::size_t>(index)].tensor().raw();
    addresses.push_back(device_->is_on_device(address) ? address : nullptr);
  };
  for (std::size_t i = segment.first; i < segment.end; ++i) {
    for (const std::int32_t input : plan_.steps[i].inputs) add(input);
    for (std::int32_t k = 0; k < plan_.steps[i].output_count; ++k) add(plan_.steps[i].first_output + k);
  }
  return addresses;
}

void PlanRun::replay_segment(std::size_t segment) {
  const auto [first, end] = plan_.segments[segment];
  for (std::size_t i = first; i < end; ++i) {
    device_->wait_for(plan_.steps[i]);
    provide_storage(plan_.steps[i]);
    if (plan_.steps[i].kind == StepKind::copy) stage(plan_.steps[i]);
  }
  device_->replay(segment, prepared_.device_constants, changing_addresses(plan_.segments[segment]), [&] {
    for (std::size_t i = first; i < end; ++i) {
      if (i == plan_.first_writing_step && writing_) device_->mark_writing();
      if (plan_.steps[i].kind == StepKind::alias) continue;
      device_->begin_step(i, prepared_.device_constants);
      plan_.steps[i].kind == StepKind::kernel ? enqueue_kernel(i) : enqueue_copy(plan_.steps[i]);
      device_->end_step(i);
    }
  });
  for (std::size_t i = first; i < end; ++i) {
    if (plan_.steps[i].kind == StepKind::copy) follow_copy(i);
  }
}

}  // namespace tessera::runtime
