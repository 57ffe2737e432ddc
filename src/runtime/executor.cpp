#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "backends/transient_memory.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/float_state.h"
#include "runtime/arena_access.h"
#include "runtime/control_flow.h"
#include "runtime/evaluate.h"
#include "runtime/output_request.h"

namespace tessera::runtime {
namespace {

using plan::Place;
using plan::Plan;
using plan::Slot;
using plan::Step;
using plan::StepKind;

// A loop may take any number of steps; nobody reads more than these.
constexpr std::size_t kMostTimings = 1'000'000;

// A result or dynamic output of known size is given storage before its kernel runs.
bool has_size(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype != DType::undefined && type.dtype != DType::string && type.shape();
}

// What an alias shows of its source.
Tensor part_of(const Tensor& source, const Slot& slot) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(source.raw()));
  return Tensor(slot.type.dtype, *slot.type.shape(), bytes != nullptr ? bytes + slot.view_offset : nullptr,
                source.owner());
}

class Run {
 public:
  Run(PreparedPlan& prepared, RunState& state, const ProgramEnvironment& environment, RunControl& control)
      : prepared_(prepared), plan_(*prepared.plan), state_(state), environment_(environment), control_(control) {}

  std::vector<Value> execute(std::span<const Value> inputs, std::vector<Tensor>& variables) {
    for (std::size_t i = 0; i < inputs.size(); ++i) value(plan_.input_slots[i]) = inputs[i];
    for (std::size_t i = 0; i < variables.size(); ++i) value(plan_.variable_slots[i]) = variables[i];
    bind_outputs(inputs);
    run_steps();
    update_variables(variables);
    std::vector<Value> outputs = collect_outputs();
    forget_run_values();
    return outputs;
  }

 private:
  const Tensor* bound_memory(std::size_t output) const {
    if (control_.depth > 0 || control_.bound.empty() || !environment_.device->computes()) return nullptr;
    return control_.bound[output].has_value() ? &control_.bound[output] : nullptr;
  }

  const std::string& output_name(std::size_t output) const {
    return plan_.graph.value(plan_.graph.outputs()[output]).name;
  }

  // Finds out which steps may write to the caller's memory, and refuses memory of another size where that is known
  // before anything is computed.
  void bind_outputs(std::span<const Value> inputs) {
    for (std::size_t i = 0; i < plan_.output_slots.size(); ++i) {
      const Tensor* memory = bound_memory(i);
      if (memory == nullptr) continue;
      const Slot& output = slot(plan_.output_slots[i]);
      if (!has_size(output.type)) continue;
      check_bound(output_name(i), output.type.dtype, *output.type.shape(), *memory);
      if (output.place == Place::result && is_taken_once(plan_.output_slots[i]) && is_writable_during(*memory, inputs))
        bound_slots_.emplace_back(plan_.output_slots[i], memory);
    }
  }

  // Storage for a result that is about to be computed.
  Value storage_for(std::int32_t index, const ir::ValueType& type) {
    for (const auto& [bound, memory] : bound_slots_) {
      if (bound == index) return *memory;
    }
    return environment_.results->allocate(type.dtype, *type.shape());
  }

  // The output in the memory that it is bound to.
  Value deliver(std::size_t output, const Value& result, const Tensor& memory) {
    require(result.is_tensor(), ErrorKind::invalid_argument,
            "output '{}' is no tensor: only tensors can be bound to memory", output_name(output));
    check_bound(output_name(output), result.tensor().dtype(), result.tensor().shape(), memory);
    Tensor to = memory;
    if (!result.tensor().shares_storage_with(memory) && memory.bytes() > 0)
      std::memcpy(to.mutable_raw(), result.tensor().raw(), static_cast<std::size_t>(memory.bytes()));
    return to;
  }

  void run_steps() {
    const base::FlushedDenormals flushed(environment_.device->flushes_denormals());
    const ClosedArena closed(plan_, state_.arena.get());
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      try {
        pass_gate(i);
        const StepAccess access(plan_, plan_.steps[i], state_.arena.get());
        run_step(i);
      } catch (Error& error) {
        error.add_context(ir::describe(plan_.graph, plan_.steps[i].node));
        throw;
      } catch (const std::bad_alloc&) {
        throw Error(ErrorKind::over_budget, "the system has no more memory")
            .add_context(ir::describe(plan_.graph, plan_.steps[i].node));
      } catch (const std::length_error&) {
        throw Error(ErrorKind::over_budget, "the kernel takes more memory than there can be")
            .add_context(ir::describe(plan_.graph, plan_.steps[i].node));
      }
      for (std::int32_t dying : plan_.steps[i].dying) value(dying) = {};
    }
  }

  const Slot& slot(std::int32_t index) const { return plan_.slots[static_cast<std::size_t>(index)]; }
  Value& value(std::int32_t index) { return state_.values[static_cast<std::size_t>(index)]; }

  void pass_gate(std::size_t index) {
    control_.resources.check_stop();
    if (control_.lease) control_.lease->take_turns();
    if (control_.gate == nullptr) return;
    const Step& step = plan_.steps[index];
    const StepInfo info{.index = static_cast<std::int64_t>(index),
                        .op = step.op->name,
                        .operations = step.cost.operations,
                        .bytes = step.cost.bytes_read + step.cost.bytes_written,
                        .depth = control_.depth,
                        .priority = control_.priority,
                        .clock = control_.clock};
    while (!control_.gate->may_pass(info)) {
      {
        const WithoutCore without_core(control_);  // it goes to whoever may use it meanwhile
        control_.gate->wait(info);
      }
      control_.resources.check_stop();
    }
  }

  void run_step(std::size_t index) {
    const Step& step = plan_.steps[index];
    const std::int64_t start = control_.timings != nullptr ? control_.clock->now_ns() : 0;
    if (!environment_.device->computes()) {
      pretend(step);
    } else {
      switch (step.kind) {
        case StepKind::kernel:
          run_kernel(index);
          break;
        case StepKind::alias:
          make_view(step);
          break;
        case StepKind::late:
          run_late(step);
          break;
        case StepKind::control:
          run_control(index);
          break;
      }
    }
    if (control_.timings != nullptr && control_.timings->size() < kMostTimings)
      record(step, start, control_.clock->now_ns());
  }

  void run_kernel(std::size_t index) {
    const Step& step = plan_.steps[index];
    const std::size_t first = state_.first_operand[index];
    const std::span<Value> outputs(state_.values.data() + step.first_output,
                                   static_cast<std::size_t>(step.output_count));
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

  // Results without elements are there already; a loop over their other dimensions might take forever.
  bool gives_nothing(const Step& step, std::span<const Value> outputs) const {
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const bool wanted = slot(step.first_output + static_cast<std::int32_t>(k)).place != Place::none;
      if (wanted && !(outputs[k].is_tensor() && outputs[k].tensor().elements() == 0)) return false;
    }
    return true;
  }

  // Strings of known shape own their storage; everything else of unknown size is the kernel's to allocate.
  Value allocate_text(const ir::ValueType& type) {
    if (type.is_tensor() && type.dtype == DType::string && type.shape())
      return environment_.results->allocate(DType::string, *type.shape());
    return {};
  }

  void make_view(const Step& step) {
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const Slot& output = slot(step.first_output + k);
      if (output.place != Place::alias) continue;
      const Place root = slot(output.source).place;
      if (root == Place::arena || root == Place::constant) continue;  // made once, with the run state
      value(step.first_output + k) = part_of(value(output.source).tensor(), output);
    }
  }

  // The operands of a step as values of their own. A step that makes sequences or optionals may keep its operands
  // inside them, so those that lie in planned or foreign memory are copied.
  std::vector<Value> operands_of(const Step& step) {
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
      const bool own = place == Place::constant || place == Place::dynamic || place == Place::result;
      if (keeps && !own && value(input).is_tensor()) operands.push_back(copy_of(value(input).tensor()));
      else operands.push_back(value(input));
    }
    return operands;
  }

  void run_late(const Step& step) {
    const std::vector<Value> operands = operands_of(step);
    std::vector<ir::ValueType> types;
    for (std::int32_t input : step.inputs) types.push_back(input >= 0 ? slot(input).type : ir::ValueType{});
    std::vector<Value> results =
        evaluate_node(*environment_.device, plan_.graph.node(step.node), operands, control_.resources, types);
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

  void run_control(std::size_t index) {
    const Step& step = plan_.steps[index];
    std::vector<Value> results = run_control_flow(plan_.graph.node(step.node), *step.op, operands_of(step),
                                                  prepared_.subprograms.at(index), control_);
    for (std::size_t k = 0; k < results.size(); ++k)
      value(step.first_output + static_cast<std::int32_t>(k)) = std::move(results[k]);
    check_outputs(step);
  }

  // What later kernels were made for must be what is there: a package can hold shapes that are not true.
  void check_outputs(const Step& step) {
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const ir::ValueType& type = step.output_types[static_cast<std::size_t>(k)];
      const Value& result = value(step.first_output + k);
      if (slot(step.first_output + k).place == Place::none || !type.is_tensor() || !result.is_tensor() || !type.dims)
        continue;
      const Tensor& tensor = result.tensor();
      bool agrees = type.dtype == tensor.dtype() && type.dims->size() == tensor.shape().size();
      for (std::size_t i = 0; agrees && i < type.dims->size(); ++i)
        agrees = (*type.dims)[i].may_equal(tensor.shape()[i]);
      require(agrees, ErrorKind::invalid_model, "output {} is declared as {}, but is {}{}", k, ir::to_string(type),
              name_of(tensor.dtype()), to_string(tensor.shape()));
    }
  }

  // On a device that does not compute, results have a shape but no bytes.
  void pretend(const Step& step) {
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const ir::ValueType& type = step.output_types[static_cast<std::size_t>(k)];
      if (has_size(type)) value(step.first_output + k) = Tensor(type.dtype, *type.shape(), nullptr, nullptr);
    }
  }

  void record(const Step& step, std::int64_t start, std::int64_t end) {
    StepTiming timing;
    const ir::Node& node = plan_.graph.node(step.node);
    timing.name = node.name;
    timing.op = node.op;
    timing.kernel = step.entry != nullptr            ? step.entry->name
                    : step.kind == StepKind::late    ? "late"
                    : step.kind == StepKind::control ? "control flow"
                                                     : "view";
    for (std::int32_t input : step.inputs)
      timing.shapes += (input >= 0 ? ir::to_string(slot(input).type) : "none") + " ";
    timing.shapes += "->";
    for (const ir::ValueType& type : step.output_types) timing.shapes += " " + ir::to_string(type);
    timing.start_ns = start - control_.start_ns;
    timing.duration_ns = end - start;
    timing.operations = step.cost.operations;
    timing.bytes = step.cost.bytes_read + step.cost.bytes_written;
    timing.depth = control_.depth;
    control_.timings->push_back(std::move(timing));
  }

  // A copy in memory that is charged to the session.
  Value copy_of(const Tensor& tensor) { return control_.resources.copy(tensor); }

  // A tensor that outlives the run: moved out when this run made it and nobody else needs it, else copied.
  Value keep(std::int32_t index, bool last_taker) {
    const Place place = slot(index).place;
    if ((place == Place::result || place == Place::dynamic) && last_taker) return std::move(value(index));
    if (!value(index).is_tensor()) return value(index);
    if (!environment_.device->computes()) return value(index);
    return copy_of(value(index).tensor());
  }

  void update_variables(std::vector<Tensor>& variables) {
    // All updates are taken before any is stored: one variable's next value may be another's present one.
    std::vector<Value> updates(variables.size());
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (plan_.update_slots[i] >= 0) updates[i] = keep(plan_.update_slots[i], is_taken_once(plan_.update_slots[i]));
    }
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (updates[i].is_tensor()) variables[i] = updates[i].tensor();
    }
  }

  bool is_taken_once(std::int32_t index) const {
    return std::count(plan_.output_slots.begin(), plan_.output_slots.end(), index) +
               std::count(plan_.update_slots.begin(), plan_.update_slots.end(), index) ==
           1;
  }

  // Whether delivering the outputs may write over this one before it is read: it lies in an input whose memory outputs
  // are bound to.
  bool is_overwritten(const Value& result, std::size_t output) const {
    if (!result.is_tensor() || result.tensor().shares_storage_with(*bound_memory(output))) return false;
    return std::any_of(control_.bound.begin(), control_.bound.end(),
                       [&](const Tensor& memory) { return overlap(result.tensor(), memory); });
  }

  std::vector<Value> collect_outputs() {
    std::vector<Value> outputs;
    for (std::size_t i = 0; i < plan_.output_slots.size(); ++i) {
      const std::int32_t index = plan_.output_slots[i];
      if (bound_memory(i) == nullptr) outputs.push_back(keep(index, is_taken_once(index)));
      else if (is_overwritten(value(index), i)) outputs.push_back(copy_of(value(index).tensor()));
      else outputs.push_back(value(index));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (const Tensor* memory = bound_memory(i)) outputs[i] = deliver(i, outputs[i], *memory);
    }
    return outputs;
  }

  void forget_run_values() {
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      const Slot& current = plan_.slots[i];
      const bool planned = current.place == Place::arena || current.place == Place::constant ||
                           (current.place == Place::alias && (slot(current.source).place == Place::arena ||
                                                              slot(current.source).place == Place::constant));
      if (!planned) state_.values[i] = {};
    }
  }

  PreparedPlan& prepared_;
  const Plan& plan_;
  RunState& state_;
  const ProgramEnvironment& environment_;
  RunControl& control_;
  std::vector<std::pair<std::int32_t, const Tensor*>> bound_slots_;  // results that are written to the caller's memory
};

// Lets the values in the arena lie in the block at `base`.
void bind_arena(const Plan& plan, RunState& state, std::byte* base) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const Slot& root = slot.place == Place::alias ? plan.slots[static_cast<std::size_t>(slot.source)] : slot;
    if (root.place == Place::arena)
      state.values[i] = Tensor(slot.type.dtype, *slot.type.shape(),
                               base != nullptr ? base + root.offset + slot.view_offset : nullptr, nullptr);
  }
  state.bound_arena = base;
}

}  // namespace

std::unique_ptr<RunState> make_run_state(const Plan& plan) {
  auto state = std::make_unique<RunState>();
  state->values.resize(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.place == Place::constant) state->values[i] = slot.constant;
    if (slot.place == Place::alias) {
      const Slot& root = plan.slots[static_cast<std::size_t>(slot.source)];
      if (root.place == Place::constant) state->values[i] = part_of(root.constant, slot);
    }
  }
  for (const Step& step : plan.steps) {
    state->first_operand.push_back(state->operands.size());
    for (std::int32_t input : step.inputs)
      state->operands.push_back(input >= 0 ? &state->values[static_cast<std::size_t>(input)] : nullptr);
  }
  bind_arena(plan, *state, nullptr);
  return state;
}

std::vector<Value> execute(PreparedPlan& prepared, RunState& state, std::span<const Value> inputs,
                           std::vector<Tensor>& variables, const ProgramEnvironment& environment, RunControl& control) {
  const Plan& plan = *prepared.plan;
  if (environment.device->computes() && plan.arena_bytes > 0) {
    state.arena = arena_blocks().take(plan.arena_bytes, environment.account, Purpose::arena, state.bound_arena);
    if (state.arena.get() != state.bound_arena) bind_arena(plan, state, state.arena.get());
  }
  std::vector<Value> outputs = Run(prepared, state, environment, control).execute(inputs, variables);
  state.arena.reset();
  return outputs;
}

}  // namespace tessera::runtime
