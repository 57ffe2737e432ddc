#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/run/plan_run.h"
#include "runtime/session/output_request.h"

namespace tessera::runtime {

using plan::Place;
using plan::Slot;

const Tensor* PlanRun::bound_memory(std::size_t output) const {
  if (control_.depth > 0 || control_.bound.empty() || !environment_.device->computes()) return nullptr;
  return control_.bound[output].has_value() ? &control_.bound[output] : nullptr;
}

const std::string& PlanRun::output_name(std::size_t output) const {
  return plan_.graph.value(plan_.graph.outputs()[output]).name;
}

void PlanRun::bind_outputs(std::span<const Value> inputs) {
  for (std::size_t i = 0; i < plan_.output_slots.size(); ++i) {
    const Tensor* memory = bound_memory(i);
    if (memory == nullptr) continue;
    const Slot& output = slot(plan_.output_slots[i]);
    if (!has_size(output.type)) continue;
    check_bound(output_name(i), output.type.dtype, *output.type.shape(), *memory);
    if (output.place == Place::result && is_taken_once(plan_.output_slots[i]) && is_writable_during(*memory, inputs) &&
        is_written_directly(plan_.output_slots[i], *memory))
      bound_slots_.emplace_back(plan_.output_slots[i], memory);
  }
}

Value PlanRun::storage_for(std::int32_t index, const ir::ValueType& type) {
  for (const auto& [bound, memory] : bound_slots_) {
    if (bound == index) return *memory;
  }
  for (auto& [reserved, memory] : reserved_) {
    if (reserved == index) return std::move(memory);
  }
  if (slot(index).update_of >= 0) return storage_for_update(static_cast<std::size_t>(slot(index).update_of), type);
  return environment_.results->allocate(type.dtype, *type.shape());
}

bool PlanRun::is_written_directly(std::int32_t index, const Tensor& memory) const {
  return device_ == nullptr || !device_->is_on_device(memory.raw()) || is_copied(index);
}

void PlanRun::copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (device_ == nullptr || !device_->is_on_device(to)) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  device_->copy(to, from, bytes);
  device_->synchronise();
}

Value PlanRun::deliver(std::size_t output, const Value& result, const Tensor& memory) {
  require(result.is_tensor(), ErrorKind::invalid_argument,
          "output '{}' is no tensor: only tensors can be bound to memory", output_name(output));
  check_bound(output_name(output), result.tensor().dtype(), result.tensor().shape(), memory);
  Tensor to = memory;
  if (!result.tensor().shares_storage_with(memory) && memory.bytes() > 0)
    copy_bytes(to.mutable_raw(), result.tensor().raw(), memory.bytes());
  return to;
}

Value PlanRun::keep(std::int32_t index, bool last_taker, bool may_move) {
  const Place place = slot(index).place;
  if ((place == Place::result || place == Place::dynamic) && last_taker)
    return may_move ? std::move(value(index)) : value(index);
  if (!value(index).is_tensor()) return value(index);
  if (!environment_.device->computes()) return value(index);
  return copy_of(value(index).tensor());
}

bool PlanRun::is_taken_once(std::int32_t index) const {
  return std::count(plan_.output_slots.begin(), plan_.output_slots.end(), index) +
             std::count(plan_.update_slots.begin(), plan_.update_slots.end(), index) ==
         1;
}

bool PlanRun::is_overwritten(const Value& result, std::size_t output) const {
  if (!result.is_tensor() || result.tensor().shares_storage_with(*bound_memory(output))) return false;
  return std::any_of(control_.bound.begin(), control_.bound.end(),
                     [&](const Tensor& memory) { return overlap(result.tensor(), memory); });
}

std::vector<Value> PlanRun::collect_outputs(bool may_move) {
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < plan_.output_slots.size(); ++i) {
    const std::int32_t index = plan_.output_slots[i];
    if (bound_memory(i) == nullptr) outputs.push_back(keep(index, is_taken_once(index), may_move));
    else if (is_overwritten(value(index), i)) outputs.push_back(copy_of(value(index).tensor()));
    else outputs.push_back(value(index));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (const Tensor* memory = bound_memory(i)) outputs[i] = deliver(i, outputs[i], *memory);
  }
  return outputs;
}

void PlanRun::forget_run_values() {
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& current = plan_.slots[i];
    const bool planned = current.place == Place::arena || current.place == Place::constant ||
                         (current.place == Place::alias && (slot(current.source).place == Place::arena ||
                                                            slot(current.source).place == Place::constant));
    if (!planned) state_.values[i] = {};
  }
}

}  // namespace tessera::runtime
