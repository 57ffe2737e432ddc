#include <algorithm>
#include <map>

#include "base/assert.h"
#include "base/error.h"
#include "base/units.h"
#include "ops/infer.h"
#include "ops/op_table.h"
#include "plan/make_kernels.h"
#include "plan/memory_plan.h"
#include "plan/plan.h"

namespace tessera::plan {
namespace {

bool is_control(const ir::Node& node) { return !ir::subgraphs_of(node).empty(); }

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
    find_last_uses();
    mark_results();
    share_storage();
    place_in_arena();
    list_dying();
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
    for (const ir::Variable& variable : graph().variables()) plan_->variable_slots.push_back(add_slot(Place::variable, variable.read));
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
      if (options_.max_value_bytes > 0 && output_types.back().dtype != DType::undefined) check_size(id, output, output_types.back());
      const bool sized = output_types.back().dtype != DType::undefined && output_types.back().dtype != DType::string;
      add_slot(!wanted ? Place::none : sized && !is_control(node) && inputs_known ? Place::arena : Place::dynamic, output);
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
      require(type.bytes() <= options_.max_value_bytes, ErrorKind::over_budget, "value '{}' of {}{} takes {}, more than the limit of {}", base::shown(graph().value(value).name),
              name_of(type.dtype), to_string(type.shape), base::format_bytes(type.bytes()), base::format_bytes(options_.max_value_bytes));
    } catch (Error& error) {
      error.add_context(ir::describe(graph(), node));
      throw;
    }
  }

  // --- lifetimes ------------------------------------------------------------------------------------------------------

  void find_last_uses() {
    last_use_.assign(plan_->slots.size(), -1);
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      for (std::int32_t input : step.inputs) {
        if (input >= 0) last_use_[static_cast<std::size_t>(input)] = static_cast<std::int64_t>(i);
      }
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        auto& last = last_use_[static_cast<std::size_t>(step.first_output + k)];
        last = std::max(last, static_cast<std::int64_t>(i));  // written even if never read
      }
    }
  }

  void mark_results() {
    auto becomes_result = [&](std::int32_t index) {
      if (slot(index).place == Place::arena) slot(index).place = Place::result;
      last_use_[static_cast<std::size_t>(index)] = static_cast<std::int64_t>(plan_->steps.size());
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

  // --- sharing of storage: views, and outputs written over a dying input ---------------------------------------------------

  std::int32_t root_of(std::int32_t index) { return slot(index).place == Place::alias ? slot(index).source : index; }

  // Last step at which the bytes of a root are needed, its aliases included.
  std::int64_t root_last_use(std::int32_t root) const { return root_last_use_[static_cast<std::size_t>(root)]; }

  void alias_to(std::int32_t index, std::int32_t root) {
    slot(index).place = Place::alias;
    slot(index).source = root;
    auto& last = root_last_use_[static_cast<std::size_t>(root)];
    last = std::max(last, last_use_[static_cast<std::size_t>(index)]);
  }

  void share_storage() {
    root_last_use_ = last_use_;
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      Step& step = plan_->steps[i];
      if (step.output_count == 0 || step.kind != StepKind::kernel || slot(step.first_output).place != Place::arena) continue;
      if (step.op->view && options_.alias_views) alias_view(step);
      else if (options_.in_place) reuse_dying_input(step, static_cast<std::int64_t>(i));
    }
  }

  void alias_view(Step& step) {
    const std::int32_t root = root_of(step.inputs[0]);
    if (slot(root).place == Place::dynamic) return;
    if (concrete_type(slot(root).type).bytes() != concrete_type(slot(step.first_output).type).bytes()) return;
    alias_to(step.first_output, root);
    step.kind = StepKind::alias;
    step.cost = {};
  }

  void reuse_dying_input(Step& step, std::int64_t index) {
    const std::int64_t bytes = concrete_type(slot(step.first_output).type).bytes();
    for (std::size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      if ((step.entry->in_place_inputs >> i & 1) == 0 || step.inputs[i] < 0) continue;
      const std::int32_t root = root_of(step.inputs[i]);
      if (slot(root).place != Place::arena || root_last_use(root) != index || concrete_type(slot(root).type).bytes() != bytes) continue;
      // Another operand reading the same bytes under other indices (a view broadcast against itself) must not see them change, nor
      // one that a kernel of many operands reads after the first ones are summed up.
      const bool read_twice = std::any_of(step.inputs.begin(), step.inputs.end(), [&](const std::int32_t& other) {
        const bool same_slot_of_two = other == step.inputs[i] && step.inputs.size() <= 2;
        return &other != &step.inputs[i] && other >= 0 && root_of(other) == root && !same_slot_of_two;
      });
      if (read_twice) continue;
      alias_to(step.first_output, root);
      return;
    }
  }

  // --- arena ----------------------------------------------------------------------------------------------------------

  void place_in_arena() {
    std::vector<BufferRequest> requests;
    std::vector<std::pair<bool, std::size_t>> owners;  // (is scratch, slot or step index)
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const std::int32_t index = step.first_output + k;
        if (slot(index).place != Place::arena) continue;
        requests.push_back({concrete_type(slot(index).type).bytes(), static_cast<std::int64_t>(i), root_last_use(index)});
        owners.emplace_back(false, static_cast<std::size_t>(index));
      }
      if (step.scratch_bytes > 0) {
        requests.push_back({step.scratch_bytes, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i)});
        owners.emplace_back(true, i);
      }
    }
    const MemoryPlan memory = plan_memory(requests);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i].first) plan_->steps[owners[i].second].scratch_offset = memory.offsets[i];
      else plan_->slots[owners[i].second].offset = memory.offsets[i];
    }
    plan_->arena_bytes = memory.arena_bytes;
    plan_->largest_live_bytes = memory.largest_live_bytes;
  }

  void list_dying() {
    for (std::size_t i = 0; i < plan_->slots.size(); ++i) {
      if (plan_->slots[i].place != Place::dynamic) continue;
      const std::int64_t last = last_use_[i];
      if (last < static_cast<std::int64_t>(plan_->steps.size())) plan_->steps[static_cast<std::size_t>(last)].dying.push_back(static_cast<std::int32_t>(i));
    }
  }

  std::shared_ptr<Plan> plan_;
  const backends::Device& device_;
  backends::WeightStore& weights_;
  const PlanOptions options_;
  std::vector<std::int32_t> slot_of_;            // by value
  std::vector<std::int64_t> last_use_;           // by slot
  std::vector<std::int64_t> root_last_use_;      // by slot; meaningful for roots
  std::vector<StepOperands> operands_;           // of the steps that get a kernel now
};

}  // namespace

std::shared_ptr<const Plan> make_plan(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights, const PlanOptions& options) {
  return Planner(std::move(graph), device, weights, options).run();
}

}  // namespace tessera::plan
