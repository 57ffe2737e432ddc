#include <algorithm>

#include "base/error.h"
#include "runtime/run/plan_run.h"

namespace tessera::runtime {

using plan::Place;
using plan::Slot;
using plan::Step;

bool PlanRun::updates_variables() const {
  return variables_ != nullptr && environment_.device->computes() &&
         std::ranges::any_of(plan_.update_slots, [](std::int32_t update) { return update >= 0; });
}

bool PlanRun::is_written_over(std::int32_t variable) const {
  return variable >= 0 &&
         std::ranges::find(plan_.written_over, static_cast<std::size_t>(variable)) != plan_.written_over.end();
}

bool PlanRun::is_on_device(std::size_t variable) const {
  return slot(plan_.variable_slots[variable]).space == backends::MemorySpace::device;
}

bool PlanRun::comes_last(std::int32_t index) const {
  for (std::size_t i = plan_.first_writing_step; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    if (index >= step.first_output && index < step.first_output + step.output_count) return true;
  }
  return false;
}

void PlanRun::begin_writing() {
  // What may fail comes before. Memory of the caller's may overlap inputs that later steps read.
  if (takes_early()) take_updates_before_writing();
  const bool has_outputs = std::ranges::none_of(plan_.output_slots, [&](auto index) { return comes_last(index); });
  if (device_ == nullptr && has_outputs && control_.bound.empty()) collected_ = collect_outputs(false);
  for (std::size_t i = plan_.first_writing_step; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const std::int32_t output = step.first_output + k;
      if (slot(output).place == Place::result && !is_written_over(slot(output).update_of))
        reserved_.emplace_back(output, storage_for(output, step.output_types[static_cast<std::size_t>(k)]));
    }
  }
  std::vector<bool> on_device;
  for (std::size_t i = 0; device_ != nullptr && i < plan_.variable_slots.size(); ++i)
    on_device.push_back(is_on_device(i));
  const std::vector<Tensor> memory = variables_->begin_writing(plan_.written_over, on_device, device_space());
  writing_ = true;
  next_values_.resize(plan_.update_slots.size());
  for (std::size_t k = 0; k < memory.size(); ++k) next_values_[plan_.written_over[k]] = memory[k];
}

Value PlanRun::storage_for_update(std::size_t variable, const ir::ValueType& type) {
  if (!next_values_.empty() && next_values_[variable].has_value()) {
    variables_->mark_written(variable);
    return next_values_[variable];
  }
  if (is_on_device(variable)) return allocate_on(device_space(), Purpose::variables, type.dtype, *type.shape());
  return variables_->memory().allocate(type.dtype, *type.shape());
}

void PlanRun::take_updates_before_writing() {
  for (std::size_t i = 0; i < plan_.update_slots.size(); ++i) {
    if (plan_.update_slots[i] >= 0 && !comes_last(plan_.update_slots[i])) take_update(i);
  }
}

void PlanRun::add_damage(Error& error) {
  if (variables_ == nullptr) return;
  if (device_ != nullptr && writing_ && !device_->has_begun_writing()) variables_->forget_writes();
  const std::string damaged = variables_->damaged();
  if (!damaged.empty()) error.add_context("a run that had begun to write " + damaged + ", which are damaged");
}

void PlanRun::take_updates(bool only_last) {
  for (std::size_t i = 0; i < plan_.update_slots.size(); ++i) {
    const std::int32_t index = plan_.update_slots[i];
    if (index >= 0 && (!only_last || comes_last(index))) take_update(i);
  }
}

void PlanRun::take_update(std::size_t variable) {
  const std::int32_t index = plan_.update_slots[variable];
  const Slot& update = slot(index);
  if (update.place == Place::variable) {
    const auto other = std::ranges::find(plan_.variable_slots, index) - plan_.variable_slots.begin();
    return variables_->update_by(variable, static_cast<std::size_t>(other));
  }
  const std::string& name = plan_.graph.variables()[variable].name;
  require(value(index).is_tensor(), ErrorKind::failed, "the update of variable '{}' is no tensor", name);
  const Tensor& next = value(index).tensor();
  require(next.dtype() == variables_->dtype(variable) && next.shape() == variables_->shape(variable), ErrorKind::failed,
          "the update of variable '{}' is {}{}, expected {}{}", name, name_of(next.dtype()), to_string(next.shape()),
          name_of(variables_->dtype(variable)), to_string(variables_->shape(variable)));
  const bool is_own = update.place == Place::result && update.update_of == static_cast<std::int32_t>(variable);
  if (is_on_device(variable)) {
    Tensor own = is_own ? next : allocate_on(device_space(), Purpose::variables, next.dtype(), next.shape());
    if (!is_own) {
      device_->copy(own.mutable_raw(), next.raw(), next.bytes());
      device_->synchronise();
    }
    return variables_->update_on(device_space(), variable, std::move(own));
  }
  if (is_own) return variables_->update(variable, next);
  backends::ExecutionResources resources;
  resources.allocator = &variables_->memory();
  variables_->update(variable, resources.copy(next));
}

}  // namespace tessera::runtime
