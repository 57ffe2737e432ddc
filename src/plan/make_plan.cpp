#include <algorithm>
#include <tuple>

#include "base/assert.h"
#include "base/error.h"
#include "base/units.h"
#include "ops/infer.h"
#include "ops/op_table.h"
#include "plan/make_kernels.h"
#include "plan/memory_plan.h"
#include "plan/plan.h"
#include "plan/share_storage.h"

namespace tessera::plan {
namespace {

bool is_control(const ir::Node& node) {
  return !ir::subgraphs_of(node).empty();
}

ops::TensorType concrete_type(const ir::ValueType& type) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape ? ops::TensorType{type.dtype, *shape} : ops::TensorType{};
}

class Planner {
 public:
  Planner(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights, const PlanOptions& options)
      : plan_(std::make_shared<Plan>()), device_(device), weights_(weights), options_(options) {
    plan_->graph = std::move(graph);
  }

  std::shared_ptr<const Plan> run() {
    add_missing_outputs();
    make_source_slots();
    for (ir::NodeId id : graph().order()) {
      if (is_wanted(id)) make_step(id);
    }
    make_kernels(*plan_, operands_, device_, weights_, options_);
    find_lifetimes();
    mark_results();
    list_dying();
    share_storage(*plan_, lifetimes_, options_);
    place_in_arena();
    return plan_;
  }

 private:
  ir::Graph& graph() { return plan_->graph; }
  Slot& slot(std::int32_t index) { return plan_->slots[static_cast<std::size_t>(index)]; }
  std::int32_t slot_of(ir::ValueId id) const { return id.valid() ? slot_of_[static_cast<std::size_t>(id.index)] : -1; }

  std::int32_t add_slot(Place place, ir::ValueId value) {
    Slot added;
    added.place = place;
    added.value = value;
    if (value.valid()) {
      added.type = graph().value(value).type;
      if (const Tensor* constant = graph().constant(value)) added.constant = *constant;
      slot_of_[static_cast<std::size_t>(value.index)] = static_cast<std::int32_t>(plan_->slots.size());
    }
    plan_->slots.push_back(std::move(added));
    return static_cast<std::int32_t>(plan_->slots.size() - 1);
  }

  // Where nobody asks for what a node gives, its kernel need not know how to give nothing.
  bool is_wanted(ir::NodeId id) {
    return std::ranges::any_of(graph().node(id).outputs, [](ir::ValueId output) { return output.valid(); });
  }

  void add_missing_outputs() {
    for (ir::NodeId id : graph().order()) {
      if (!is_wanted(id)) continue;
      const std::vector<std::size_t> missing = ops::missing_outputs(graph().node(id), ops::op_of(graph().node(id)));
      for (const std::size_t output : missing) graph().want_output(id, output);
      if (!missing.empty()) ops::infer_node_in_place(graph(), id);
    }
    slot_of_.assign(graph().value_count(), -1);
  }

  void make_source_slots() {
    for (ir::ValueId id : graph().inputs()) plan_->input_slots.push_back(add_slot(Place::input, id));
    for (const ir::Variable& variable : graph().variables())
      plan_->variable_slots.push_back(add_slot(Place::variable, variable.read));
    for (std::size_t i = 0; i < graph().value_count(); ++i) {
      const ir::ValueId id{static_cast<std::int32_t>(i)};
      if (!graph().is_constant(id)) continue;
      add_slot(Place::constant, id);
      plan_->constant_bytes += graph().constant(id)->bytes();
    }
  }

  void make_step(ir::NodeId id) {
    const ir::Node& node = graph().node(id);
    Step step;
    step.node = id;
    step.op = &ops::op_of(node);
    for (ir::ValueId input : node.inputs) step.inputs.push_back(slot_of(input));
    StepOperands operands{plan_->steps.size(), {}, {}, {}};
    auto& [index, input_types, output_types, constants] = operands;
    bool inputs_known = true;
    for (std::int32_t input : step.inputs) {
      input_types.push_back(input >= 0 ? concrete_type(slot(input).type) : ops::TensorType{});
      // The graph's tensor: slots move when more are added.
      constants.push_back(input >= 0 ? graph().constant(slot(input).value) : nullptr);
      inputs_known = inputs_known && (input < 0 || input_types.back().dtype != DType::undefined);
    }
    step.first_output = static_cast<std::int32_t>(plan_->slots.size());
    step.output_count = static_cast<std::int32_t>(node.outputs.size());
    for (ir::ValueId output : node.outputs) {
      const bool wanted = output.valid();
      step.output_types.push_back(wanted ? graph().value(output).type : ir::ValueType{});
      output_types.push_back(concrete_type(step.output_types.back()));
      if (options_.max_value_bytes > 0 && output_types.back().dtype != DType::undefined)
        check_size(id, output, output_types.back());
      const bool sized = output_types.back().dtype != DType::undefined && output_types.back().dtype != DType::string;
      add_slot(!wanted                                      ? Place::none
               : sized && !is_control(node) && inputs_known ? Place::arena
                                                            : Place::dynamic,
               output);
    }
    if (is_control(node)) {
      step.kind = StepKind::control;
    } else if (!inputs_known) {
      step.kind = StepKind::late;
    } else {
      operands_.push_back(std::move(operands));
    }
    plan_->steps.push_back(std::move(step));
  }

  void check_size(ir::NodeId node, ir::ValueId value, const ops::TensorType& type) {
    try {
      require(type.bytes() <= options_.max_value_bytes, ErrorKind::over_budget,
              "value '{}' of {}{} takes {}, more than the limit of {}", base::shown(graph().value(value).name),
              name_of(type.dtype), to_string(type.shape), base::format_bytes(type.bytes()),
              base::format_bytes(options_.max_value_bytes));
    } catch (Error& error) {
      error.add_context(ir::describe(graph(), node));
      throw;
    }
  }

  // --- lifetimes
  // ------------------------------------------------------------------------------------------------------

  void find_lifetimes() {
    lifetimes_.first.assign(plan_->slots.size(), -1);
    lifetimes_.last.assign(plan_->slots.size(), -1);
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      for (std::int32_t input : step.inputs) {
        if (input >= 0) last(input) = static_cast<std::int64_t>(i);
      }
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const std::int32_t output = step.first_output + k;
        lifetimes_.first[static_cast<std::size_t>(output)] = static_cast<std::int64_t>(i);
        last(output) = std::max(last(output), static_cast<std::int64_t>(i));  // written even if never read
      }
    }
  }
  std::int64_t& last(std::int32_t index) { return lifetimes_.last[static_cast<std::size_t>(index)]; }

  void mark_results() {
    auto becomes_result = [&](std::int32_t index) {
      if (slot(index).place == Place::arena) slot(index).place = Place::result;
      last(index) = static_cast<std::int64_t>(plan_->steps.size());
    };
    for (ir::ValueId output : graph().outputs()) {
      plan_->output_slots.push_back(slot_of(output));
      becomes_result(plan_->output_slots.back());
    }
    for (const ir::Variable& variable : graph().variables()) {
      plan_->update_slots.push_back(slot_of(variable.update));
      if (variable.update.valid()) becomes_result(plan_->update_slots.back());
    }
  }

  // --- arena
  // ----------------------------------------------------------------------------------------------------------

  // With what is joined written in place, where that takes no more memory.
  void place_in_arena() {
    Arena arena = planned_arena();
    const std::vector<Slot> slots = plan_->slots;
    const Lifetimes lifetimes = lifetimes_;
    std::vector<std::pair<StepKind, ops::Cost>> steps;
    for (const Step& step : plan_->steps) steps.emplace_back(step.kind, step.cost);
    if (options_.alias_views && join_in_place(*plan_, lifetimes_)) {
      if (Arena joined = planned_arena(); joined.memory.arena_bytes <= arena.memory.arena_bytes) {
        arena = std::move(joined);
      } else {
        plan_->slots = slots;
        lifetimes_ = lifetimes;
        for (std::size_t i = 0; i < steps.size(); ++i) std::tie(plan_->steps[i].kind, plan_->steps[i].cost) = steps[i];
      }
    }
    for (std::size_t i = 0; i < arena.owners.size(); ++i) {
      const auto [is_scratch, index] = arena.owners[i];
      if (is_scratch) plan_->steps[index].scratch_offset = arena.memory.offsets[i];
      else plan_->slots[index].offset = arena.memory.offsets[i];
    }
    plan_->arena_bytes = arena.memory.arena_bytes;
    plan_->largest_live_bytes = arena.memory.largest_live_bytes;
  }

  struct Arena {
    MemoryPlan memory;
    std::vector<std::pair<bool, std::size_t>> owners;  // (is scratch, step or slot index), one a buffer
  };
  Arena planned_arena() {
    Arena arena;
    std::vector<BufferRequest> requests;
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const auto index = static_cast<std::size_t>(step.first_output + k);
        if (plan_->slots[index].place != Place::arena) continue;
        requests.push_back(
            {concrete_type(plan_->slots[index].type).bytes(), lifetimes_.first[index], lifetimes_.last[index]});
        arena.owners.emplace_back(false, index);
      }
      if (step.scratch_bytes > 0) {
        requests.push_back({step.scratch_bytes, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i)});
        arena.owners.emplace_back(true, i);
      }
    }
    arena.memory = plan_memory(requests);
    return arena;
  }

  void list_dying() {
    for (std::size_t i = 0; i < plan_->slots.size(); ++i) {
      if (plan_->slots[i].place != Place::dynamic) continue;
      const std::int64_t last = lifetimes_.last[i];
      if (last < static_cast<std::int64_t>(plan_->steps.size()))
        plan_->steps[static_cast<std::size_t>(last)].dying.push_back(static_cast<std::int32_t>(i));
    }
  }

  std::shared_ptr<Plan> plan_;
  const backends::Device& device_;
  backends::WeightStore& weights_;
  const PlanOptions options_;
  std::vector<std::int32_t> slot_of_;  // by value
  Lifetimes lifetimes_;
  std::vector<StepOperands> operands_;  // of the steps that get a kernel now
};

}  // namespace

std::shared_ptr<const Plan> make_plan(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights,
                                      const PlanOptions& options) {
  return Planner(std::move(graph), device, weights, options).run();
}

}  // namespace tessera::plan
