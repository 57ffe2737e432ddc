// Length: placing nodes, slots, lifetimes and arenas share the planner's tables of slots by value.
#include <algorithm>
#include <array>
#include <tuple>

#include "base/assert.h"
#include "base/error.h"
#include "base/numbers/units.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "plan/asynchronous_steps.h"
#include "plan/choose_kernel.h"
#include "plan/copies.h"
#include "plan/make_kernels.h"
#include "plan/memory_plan.h"
#include "plan/order_updates.h"
#include "plan/plan.h"
#include "plan/share_storage.h"
#include "plan/streams.h"

namespace tessera::plan {
namespace {

using backends::MemorySpace;

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
    plan_->slots.reserve(graph().value_count());
    plan_->steps.reserve(graph().node_count());
    operands_.reserve(graph().node_count());
    make_source_slots();
    plan_->uses_device = !device_.is_host();
    if (plan_->uses_device) place_nodes();
    for (ir::NodeId id : graph().order()) {
      if (is_wanted(id)) make_step(id);
    }
    if (plan_->uses_device) copy_results();
    make_kernels(*plan_, operands_, device_, weights_, options_);
    if (plan_->uses_device) give_reasons();
    list_results();
    find_asynchronous(*plan_);
    if (options_.in_place) order_updates(*plan_);
    find_lifetimes();
    mark_results();
    list_dying();
    share_storage(*plan_, lifetimes_, options_);
    order_ = assign_streams(*plan_, device_.properties());
    place_in_arena();
    find_awaited_steps(*plan_);
    if (plan_->uses_device) {
      find_waits(*plan_);
      find_stream_waits(*plan_);
      place_copies(*plan_);
      find_segments(*plan_);
    }
    return plan_;
  }

 private:
  ir::Graph& graph() { return plan_->graph; }
  Slot& slot(std::int32_t index) { return plan_->slots[static_cast<std::size_t>(index)]; }
  // The slot that holds the value in this memory space. If the value is made in the other one, a copy step fills the
  // slot.
  std::int32_t slot_in(MemorySpace space, ir::ValueId id) {
    if (!id.valid()) return -1;
    const std::int32_t made = slot_of_[static_cast<std::size_t>(id.index)];
    if (made < 0 || slot(made).space == space) return made;
    const std::int32_t known = copy_of_[static_cast<std::size_t>(id.index)];
    return known >= 0 ? known : add_copy(made, space);
  }

  std::int32_t add_slot(Place place, ir::ValueId value, MemorySpace space = MemorySpace::host) {
    Slot added;
    added.place = place;
    added.space = space;
    added.value = value;
    if (value.valid()) {
      added.type = graph().value(value).type;
      if (const Tensor* constant = graph().constant(value)) added.constant = *constant;
      slot_of_[static_cast<std::size_t>(value.index)] = static_cast<std::int32_t>(plan_->slots.size());
    }
    plan_->slots.push_back(std::move(added));
    return static_cast<std::int32_t>(plan_->slots.size() - 1);
  }

  // Constants have a copied slot but no copy step: they are copied once per program.
  std::int32_t add_copy(std::int32_t from, MemorySpace space) {
    const auto index = static_cast<std::int32_t>(plan_->slots.size());
    Slot added = slot(from);
    added.space = space;
    copy_of_[static_cast<std::size_t>(added.value.index)] = index;
    const std::int64_t bytes = concrete_type(added.type).bytes();
    if (added.place == Place::constant) {
      plan_->device_constant_bytes += bytes;
      plan_->slots.push_back(std::move(added));
      return index;
    }
    added.place = Place::arena;
    Step step;
    step.kind = StepKind::copy;
    step.space = space;
    step.inputs = {from};
    step.first_output = index;
    step.output_count = 1;
    step.output_types = {added.type};
    step.cost.bytes_read = static_cast<double>(bytes);
    step.expected_seconds = device_.copy_seconds(bytes);
    plan_->slots.push_back(std::move(added));
    plan_->steps.push_back(std::move(step));
    return index;
  }

  // --- devices other than the host ---

  MemorySpace space_of(ir::NodeId id) const {
    const bool on_device = !against_device_.empty() && against_device_[static_cast<std::size_t>(id.index)].empty();
    return on_device ? MemorySpace::device : MemorySpace::host;
  }

  // Places each node on the device if that takes it, else on the host fallback; and each variable on the device if a
  // node there reads it or computes its update. Copies what else the device needs before anything else.
  void place_nodes() {
    std::int32_t nodes = 0;
    for (const ir::NodeId id : graph().order()) nodes = std::max(nodes, id.index + 1);
    against_device_.assign(static_cast<std::size_t>(nodes), "nothing needs it");
    std::vector<bool> needed(graph().value_count(), false);
    for (const ir::NodeId id : graph().order()) {
      if (!is_wanted(id)) continue;
      std::string& reason = against_device_[static_cast<std::size_t>(id.index)];
      reason = reason_against_device(device_, graph(), graph().node(id));
      if (!reason.empty()) continue;
      plan_->draws_on_device = plan_->draws_on_device || !ops::op_of(graph().node(id)).deterministic;
      for (const ir::ValueId input : graph().node(id).inputs) {
        if (input.valid()) needed[static_cast<std::size_t>(input.index)] = true;
      }
    }
    const auto copy_if_needed = [&](ir::ValueId id) {
      if (id.valid() && needed[static_cast<std::size_t>(id.index)]) slot_in(MemorySpace::device, id);
    };
    for (std::size_t i = 0; i < graph().variables().size(); ++i) {
      const ir::Variable& variable = graph().variables()[i];
      const bool is_read = variable.read.valid() && needed[static_cast<std::size_t>(variable.read.index)];
      const bool is_updated = variable.update.valid() && graph().value(variable.update).origin == ir::Origin::node &&
                              space_of(graph().value(variable.update).producer) == MemorySpace::device;
      // A copy step needs to know the size of what it copies.
      const bool has_size =
          !variable.update.valid() || concrete_type(graph().value(variable.update).type).dtype != DType::undefined;
      if ((is_read || is_updated) && has_size) slot(plan_->variable_slots[i]).space = MemorySpace::device;
    }
    for (const ir::ValueId id : graph().inputs()) copy_if_needed(id);
    for (const ir::Variable& variable : graph().variables()) copy_if_needed(variable.read);
  }
  // The slot of the variable's next value, which is in the variable's memory space; -1 without an update.
  std::int32_t update_slot(std::size_t variable) {
    return slot_in(slot(plan_->variable_slots[variable]).space, graph().variables()[variable].update);
  }

  // Outputs are host memory.
  void copy_results() {
    for (const ir::ValueId id : graph().outputs()) slot_in(MemorySpace::host, id);
    for (std::size_t i = 0; i < graph().variables().size(); ++i) update_slot(i);
  }

  void give_reasons() {
    for (Step& step : plan_->steps) {
      if (step.kind == StepKind::copy || step.space == MemorySpace::device) continue;
      step.rejected.insert(
          step.rejected.begin(),
          fmt::format("device {}: {}", device_.name(), against_device_[static_cast<std::size_t>(step.node.index)]));
    }
  }

  // Whether any output of the node is used. A node without one gets no step, so kernels need not support that case.
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
    copy_of_ = slot_of_;
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
    step.space = space_of(id);
    step.op = &ops::op_of(node);
    for (ir::ValueId input : node.inputs) step.inputs.push_back(slot_in(step.space, input));
    const Plan* like = options_.tuner == nullptr ? options_.like : nullptr;
    if (const Step* made = like != nullptr ? find_same_step(*plan_, step, *like) : nullptr)
      return take_over(*made, std::move(step));
    StepOperands operands{plan_->steps.size(), {}, {}, {}};
    auto& [index, input_types, output_types, constants] = operands;
    bool inputs_known = true;
    for (std::int32_t input : step.inputs) {
      input_types.push_back(input >= 0 ? concrete_type(slot(input).type) : ops::TensorType{});
      // Points to the graph's tensor, because slots move when more are added.
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
               output, step.space);
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

  void take_over(const Step& made, Step step) {
    take_kernel(step, made);
    step.output_types = made.output_types;
    step.first_output = static_cast<std::int32_t>(plan_->slots.size());
    step.output_count = made.output_count;
    const std::vector<ir::ValueId>& outputs = graph().node(step.node).outputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const ir::ValueType& type = step.output_types[k];
      const bool sized =
          type.is_tensor() && type.dtype != DType::undefined && type.dtype != DType::string && type.shape().has_value();
      add_slot(!outputs[k].valid() ? Place::none : sized ? Place::arena : Place::dynamic, outputs[k], step.space);
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

  // --- lifetimes ---

  void find_lifetimes() {
    lifetimes_.first.assign(plan_->slots.size(), -1);
    lifetimes_.last.assign(plan_->slots.size(), -1);
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      const std::int64_t last_use = last_use_of_operands(*plan_, i);
      for (std::int32_t input : step.inputs) {
        if (input >= 0) last(input) = std::max(last(input), last_use);
      }
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const std::int32_t output = step.first_output + k;
        lifetimes_.first[static_cast<std::size_t>(output)] = static_cast<std::int64_t>(i);
        last(output) = std::max(last(output), static_cast<std::int64_t>(i));  // written even if it is never read
      }
    }
  }
  std::int64_t& last(std::int32_t index) { return lifetimes_.last[static_cast<std::size_t>(index)]; }

  void list_results() {
    for (ir::ValueId output : graph().outputs()) plan_->output_slots.push_back(slot_in(MemorySpace::host, output));
    for (std::size_t i = 0; i < graph().variables().size(); ++i) plan_->update_slots.push_back(update_slot(i));
  }

  void mark_results() {
    auto becomes_result = [&](std::int32_t index) {
      if (slot(index).place == Place::arena) slot(index).place = Place::result;
      last(index) = static_cast<std::int64_t>(plan_->steps.size());
    };
    for (const std::int32_t output : plan_->output_slots) becomes_result(output);
    for (std::size_t i = 0; i < plan_->update_slots.size(); ++i) {
      const std::int32_t update = plan_->update_slots[i];
      if (update < 0) continue;
      becomes_result(update);
      if (slot(update).place == Place::result && slot(update).update_of < 0)
        slot(update).update_of = static_cast<std::int32_t>(i);
    }
  }

  // --- arena ---

  // Writes the operands of Concat nodes in place if that takes no more memory.
  void place_in_arena() {
    Arenas arenas = planned_arenas();
    std::vector<std::tuple<Place, std::int32_t, std::int64_t>> slots;
    for (const Slot& each : plan_->slots) slots.emplace_back(each.place, each.source, each.view_offset);
    const Lifetimes lifetimes = lifetimes_;
    std::vector<std::pair<StepKind, ops::Cost>> steps;
    for (const Step& step : plan_->steps) steps.emplace_back(step.kind, step.cost);
    if (options_.alias_views && join_in_place(*plan_, lifetimes_)) {
      if (Arenas joined = planned_arenas(); bytes_of(joined) <= bytes_of(arenas)) {
        arenas = std::move(joined);
      } else {
        for (std::size_t i = 0; i < slots.size(); ++i)
          std::tie(plan_->slots[i].place, plan_->slots[i].source, plan_->slots[i].view_offset) = slots[i];
        lifetimes_ = lifetimes;
        for (std::size_t i = 0; i < steps.size(); ++i) std::tie(plan_->steps[i].kind, plan_->steps[i].cost) = steps[i];
      }
    }
    for (const Arena& arena : arenas) {
      for (std::size_t i = 0; i < arena.owners.size(); ++i) {
        const auto [is_scratch, index] = arena.owners[i];
        if (is_scratch) plan_->steps[index].scratch_offset = arena.memory.offsets[i];
        else plan_->slots[index].offset = arena.memory.offsets[i];
      }
    }
    const auto& [host, device] = arenas;
    plan_->arena_bytes = host.memory.arena_bytes;
    plan_->largest_live_bytes = host.memory.largest_live_bytes;
    plan_->device_arena_bytes = device.memory.arena_bytes;
    plan_->largest_live_device_bytes = device.memory.largest_live_bytes;
  }

  struct Arena {
    MemoryPlan memory;
    std::vector<std::pair<bool, std::size_t>> owners;  // (is scratch, step or slot index), one per buffer
  };
  using Arenas = std::array<Arena, 2>;  // by memory space
  static std::int64_t bytes_of(const Arenas& arenas) {
    return arenas[0].memory.arena_bytes + arenas[1].memory.arena_bytes;
  }
  Arenas planned_arenas() {
    if (!plan_->uses_device) return {planned_arena(MemorySpace::host, lifetimes_), {}};
    Arenas arenas{planned_arena(MemorySpace::host, lifetimes_), planned_arena(MemorySpace::device, lifetimes_)};
    if (plan_->streams < 2) return arenas;
    // Steps that use the same bytes have to wait for each other. Where each stream has bytes of its own, they do not,
    // for which so much more memory is taken.
    constexpr std::int64_t kMoreBytes = std::int64_t{16} << 20;
    const std::int64_t more_bytes = std::max(kMoreBytes, arenas[1].memory.arena_bytes / 4);
    Arena apart = planned_arena(MemorySpace::device, order_.apart(*plan_, lifetimes_), true);
    if (apart.memory.arena_bytes - arenas[1].memory.arena_bytes <= more_bytes) arenas[1] = std::move(apart);
    return arenas;
  }
  Arena planned_arena(MemorySpace space, const Lifetimes& lifetimes, bool apart = false) {
    Arena arena;
    std::vector<BufferRequest> requests;
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const Step& step = plan_->steps[i];
      if (step.space != space) continue;
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const auto index = static_cast<std::size_t>(step.first_output + k);
        if (plan_->slots[index].place != Place::arena) continue;
        requests.push_back(
            {concrete_type(plan_->slots[index].type).bytes(), lifetimes.first[index], lifetimes.last[index]});
        arena.owners.emplace_back(false, index);
      }
      if (step.scratch_bytes > 0) {
        const std::int64_t last = apart ? order_.last_beside(*plan_, i) : last_use_of_operands(*plan_, i);
        requests.push_back({step.scratch_bytes, static_cast<std::int64_t>(i), last});
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
  // by value: the slot where it is made, and the one in the other memory space
  std::vector<std::int32_t> slot_of_, copy_of_;
  std::vector<std::string> against_device_;  // by node: why it is on the host; empty for a host device
  Lifetimes lifetimes_;
  StreamOrder order_;                   // of a plan for several streams
  std::vector<StepOperands> operands_;  // of the steps whose kernels are made during planning
};

}  // namespace

std::shared_ptr<const Plan> make_plan(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights,
                                      const PlanOptions& options) {
  return Planner(std::move(graph), device, weights, options).run();
}

}  // namespace tessera::plan
