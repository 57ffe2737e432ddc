#include <algorithm>

#include "backends/transient_memory.h"
#include "base/error.h"
#include "runtime/run/control_flow.h"
#include "runtime/run/evaluate.h"
#include "runtime/run/plan_run.h"

namespace tessera::runtime {

using plan::Place;
using plan::Slot;
using plan::Step;

bool has_size(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype != DType::undefined && type.dtype != DType::string && type.shape();
}

Tensor part_of(const Tensor& source, const Slot& slot) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(source.raw()));
  return Tensor(slot.type.dtype, *slot.type.shape(), bytes != nullptr ? bytes + slot.view_offset : nullptr,
                source.owner());
}

void PlanRun::run_kernel(std::size_t index) {
  const Step& step = plan_.steps[index];
  const std::size_t first = state_.first_operand[index];
  const std::span<Value> outputs(state_.values.data() + step.first_output, static_cast<std::size_t>(step.output_count));
  bool planned = true;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Place place = slot(step.first_output + static_cast<std::int32_t>(k)).place;
    if (place == Place::result || place == Place::dynamic) {
      planned = false;
      outputs[k] = has_size(step.output_types[k])
                       ? storage_for(step.first_output + static_cast<std::int32_t>(k), step.output_types[k])
                       : allocate_text(step.output_types[k]);
    }
  }
  if (gives_nothing(step, outputs)) return;
  backends::KernelContext context(plan_.graph.node(step.node), *step.op,
                                  {state_.operands.data() + first, step.inputs.size()}, outputs, step.output_types,
                                  control_.resources);
  if (step.scratch_bytes > 0) context.set_scratch(state_.arena.get() + step.scratch_offset);
  if (step.is_asynchronous) return begin(index, context);
  backends::run_kernel(*step.kernel, context);
  // A kernel that found another size than planned has given the output storage of its own.
  if (!planned || std::any_of(outputs.begin(), outputs.end(), [](const Value& output) {
        return output.is_tensor() && output.tensor().owner() != nullptr;
      })) {
    for (Value& output : outputs) {
      if (output.is_tensor()) output = control_.resources.with_characters(std::move(output.tensor()));
    }
    check_outputs(step);
  }
}

bool PlanRun::gives_nothing(const Step& step, std::span<const Value> outputs) const {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const bool wanted = slot(step.first_output + static_cast<std::int32_t>(k)).place != Place::none;
    if (wanted && !(outputs[k].is_tensor() && outputs[k].tensor().elements() == 0)) return false;
  }
  return true;
}

Value PlanRun::allocate_text(const ir::ValueType& type) {
  if (type.is_tensor() && type.dtype == DType::string && type.shape())
    return environment_.results->allocate(DType::string, *type.shape());
  return {};
}

void PlanRun::make_view(const Step& step) {
  for (std::int32_t k = 0; k < step.output_count; ++k) {
    const Slot& output = slot(step.first_output + k);
    if (output.place != Place::alias) continue;
    const Place root = slot(output.source).place;
    if (root == Place::arena || root == Place::constant) continue;  // made once, with the run state
    value(step.first_output + k) = part_of(value(output.source).tensor(), output);
  }
}

std::vector<Value> PlanRun::operands_of(const Step& step) {
  const bool keeps = std::any_of(step.output_types.begin(), step.output_types.end(), [](const ir::ValueType& type) {
    return !type.is_tensor() || type.dtype == DType::undefined;
  });
  std::vector<Value> operands;
  for (std::int32_t input : step.inputs) {
    if (input < 0) {
      operands.emplace_back();
      continue;
    }
    const Place place = slot(input).place;
    // The next value of a variable is written over by a later run.
    const bool own =
        place == Place::constant || place == Place::dynamic || (place == Place::result && slot(input).update_of < 0);
    if (keeps && !own && value(input).is_tensor()) operands.push_back(copy_of(value(input).tensor()));
    else operands.push_back(value(input));
  }
  return operands;
}

void PlanRun::run_late(std::size_t index) {
  const Step& step = plan_.steps[index];
  const std::vector<Value> operands = operands_of(step);
  // An empty sequence does not say what its elements would be.
  std::vector<ir::ValueType> types;
  if (!std::ranges::all_of(operands, [](const Value& operand) { return operand.is_tensor(); })) {
    for (std::int32_t input : step.inputs) types.push_back(input >= 0 ? slot(input).type : ir::ValueType{});
  }
  std::vector<Value> results = evaluate_node(*environment_.host, plan_.graph.node(step.node), operands,
                                             control_.resources, types, prepared_.late_kernels.at(index).get());
  for (std::size_t k = 0; k < results.size(); ++k) {
    const bool shared =
        results[k].is_tensor() && std::any_of(operands.begin(), operands.end(), [&](const Value& operand) {
          return operand.is_tensor() && operand.tensor().shares_storage_with(results[k].tensor());
        });
    value(step.first_output + static_cast<std::int32_t>(k)) =
        shared ? copy_of(results[k].tensor()) : std::move(results[k]);
  }
  check_outputs(step);
}

void PlanRun::run_control(std::size_t index) {
  const Step& step = plan_.steps[index];
  std::vector<Value> results = run_control_flow(plan_.graph.node(step.node), *step.op, operands_of(step),
                                                step.output_types, prepared_.subprograms.at(index), control_);
  for (std::size_t k = 0; k < results.size(); ++k)
    value(step.first_output + static_cast<std::int32_t>(k)) = std::move(results[k]);
  check_outputs(step);
}

void PlanRun::check_outputs(const Step& step) {
  for (std::int32_t k = 0; k < step.output_count; ++k) {
    const ir::ValueType& type = step.output_types[static_cast<std::size_t>(k)];
    const Value& result = value(step.first_output + k);
    if (slot(step.first_output + k).place == Place::none || !type.is_tensor() || !result.is_tensor() || !type.dims)
      continue;
    const Tensor& tensor = result.tensor();
    bool agrees = type.dtype == tensor.dtype() && type.dims->size() == tensor.shape().size();
    for (std::size_t i = 0; agrees && i < type.dims->size(); ++i) agrees = (*type.dims)[i].may_equal(tensor.shape()[i]);
    if (!agrees)
      fail(ErrorKind::invalid_model, "output {} is declared as {}, but is {}{}", k, ir::to_string(type),
           name_of(tensor.dtype()), to_string(tensor.shape()));
  }
}

void PlanRun::pretend(const Step& step) {
  for (std::int32_t k = 0; k < step.output_count; ++k) {
    const ir::ValueType& type = step.output_types[static_cast<std::size_t>(k)];
    if (has_size(type)) value(step.first_output + k) = Tensor(type.dtype, *type.shape(), nullptr, nullptr);
  }
}

}  // namespace tessera::runtime
