#include "plan/order_updates.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <set>

#include "plan/view_offsets.h"

namespace tessera::plan {
namespace {

using StepIndex = std::size_t;

class Orderer {
 public:
  explicit Orderer(Plan& plan) : plan_(plan), producer_(plan.slots.size()), readers_(plan.slots.size()) {
    for (StepIndex i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      for (const std::int32_t input : step.inputs) {
        if (input >= 0) readers_[index(input)].insert(i);
      }
      for (std::int32_t k = 0; k < step.output_count; ++k) producer_[index(step.first_output + k)] = i;
    }
    later_.resize(plan.steps.size());
    for (StepIndex i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const std::set<StepIndex>& readers = readers_[index(step.first_output + k)];
        later_[i].insert(readers.begin(), readers.end());
      }
    }
    for (const std::int32_t update : plan.update_slots) {
      if (update >= 0 && producer_[index(update)]) updating_.insert(*producer_[index(update)]);
    }
    for (const StepIndex i : updating_) updating_work_ += work_of(plan.steps[i]);
  }

  void run() {
    std::set<StepIndex> last;
    for (std::size_t i = 0; i < plan_.update_slots.size(); ++i) {
      if (plan_.update_slots[i] < 0 || plan_.update_slots[i] == plan_.variable_slots[i]) continue;
      if (!write_over(i)) continue;
      plan_.written_over.push_back(i);
      const StepIndex step = *producer_[index(plan_.update_slots[i])];
      last.insert(step);
      last.merge(all_behind(step));
    }
    if (last.empty()) return;
    move_behind(last);
    plan_.first_writing_step = plan_.steps.size() - last.size();
  }

 private:
  static std::size_t index(std::int32_t slot) { return static_cast<std::size_t>(slot); }
  const Slot& slot(std::int32_t i) const { return plan_.slots[index(i)]; }
  static double work_of(const Step& step) {
    return step.cost.operations + step.cost.bytes_read + step.cost.bytes_written;
  }

  // The slot and all slots that may be views of it.
  std::set<std::int32_t> with_views(std::int32_t of) const {
    std::set<std::int32_t> all{of};
    std::vector<std::int32_t> open{of};
    while (!open.empty()) {
      const std::int32_t each = open.back();
      open.pop_back();
      for (const StepIndex reader : readers_[index(each)]) {
        const Step& step = plan_.steps[reader];
        if (step.kind != StepKind::kernel || step.inputs[0] != each || !is_view(step)) continue;
        for (std::int32_t k = 0; k < step.output_count; ++k) {
          if (all.insert(step.first_output + k).second) open.push_back(step.first_output + k);
        }
      }
    }
    return all;
  }

  bool is_view(const Step& step) const {
    return view_offsets(plan_.graph, plan_.graph.node(step.node), *step.op).has_value();
  }

  bool outlives_steps(std::int32_t index) const {
    return std::ranges::find(plan_.output_slots, index) != plan_.output_slots.end() ||
           std::ranges::find(plan_.update_slots, index) != plan_.update_slots.end();
  }

  std::set<StepIndex> all_behind(StepIndex step) const {
    std::set<StepIndex> found;
    std::vector<StepIndex> open{step};
    while (!open.empty()) {
      const StepIndex each = open.back();
      open.pop_back();
      for (const StepIndex later : later_[each]) {
        if (found.insert(later).second) open.push_back(later);
      }
    }
    return found;
  }

  // Whether the update of the variable can be written over it. If so, notes the steps that must come before.
  bool write_over(std::size_t variable) {
    const std::int32_t read = plan_.variable_slots[variable], update = plan_.update_slots[variable];
    if (slot(update).place != Place::arena || !producer_[index(update)]) return false;
    const StepIndex writer = *producer_[index(update)];
    const std::set<std::int32_t> present = with_views(read);
    if (!is_kernel_for(writer, update, read, present)) return false;
    const bool read_later = std::ranges::any_of(present, [&](std::int32_t each) { return outlives_steps(each); });
    if (read_later || is_taken_elsewhere(update)) return false;
    const std::set<StepIndex> behind = all_behind(writer);
    if (!can_be_last(behind)) return false;
    std::set<StepIndex> before;
    for (const std::int32_t each : present) before.insert(readers_[index(each)].begin(), readers_[index(each)].end());
    before.erase(writer);
    if (std::ranges::any_of(before, [&](StepIndex each) { return behind.contains(each); })) return false;
    for (const StepIndex each : before) later_[each].insert(writer);
    return true;
  }

  // Whether the update, or a possible view of it, is an output or the update of another variable.
  bool is_taken_elsewhere(std::int32_t update) const {
    if (std::ranges::find(plan_.output_slots, update) != plan_.output_slots.end() ||
        std::ranges::count(plan_.update_slots, update) > 1)
      return true;
    const std::set<std::int32_t> views = with_views(update);
    return std::ranges::any_of(views, [&](std::int32_t each) { return each != update && outlives_steps(each); });
  }

  bool is_kernel_for(StepIndex writer, std::int32_t update, std::int32_t read,
                     const std::set<std::int32_t>& present) const {
    const Step& step = plan_.steps[writer];
    const bool same_type =
        slot(read).type.dtype == slot(update).type.dtype && slot(read).type.shape() == slot(update).type.shape();
    if (step.kind != StepKind::kernel || step.is_asynchronous || !same_type || is_view(step) ||
        (step.entry->in_place_inputs == 0 && step.entry->in_place_pair == nullptr))
      return false;
    std::vector<std::size_t> operands;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] >= 0 && present.contains(step.inputs[i])) operands.push_back(i);
    }
    if (operands.size() > 1) return false;
    if (operands.empty()) return true;
    const std::int32_t operand = step.inputs[operands[0]];
    const Slot &whole = slot(read), &part = slot(operand);
    const bool is_whole =
        byte_count(whole.type.dtype, *whole.type.shape()) == byte_count(part.type.dtype, *part.type.shape());
    return is_whole && backends::may_write_over(*step.entry, plan_.graph.node(step.node),
                                                index(update - step.first_output), operands[0]);
  }

  bool can_be_last(const std::set<StepIndex>& behind) const {
    double work = 0;
    for (const StepIndex each : behind) {
      const Step& step = plan_.steps[each];
      if ((step.kind != StepKind::kernel && step.kind != StepKind::copy) || step.is_asynchronous) return false;
      for (std::int32_t k = 0; k < step.output_count; ++k) {
        const Place place = slot(step.first_output + k).place;
        if (place != Place::arena && place != Place::none) return false;
      }
      if (!updating_.contains(each)) work += work_of(step);
    }
    return work <= updating_work_;
  }

  // Moves the given steps behind all others, and otherwise changes the order only where a step must come before
  // another.
  void move_behind(const std::set<StepIndex>& last) {
    std::vector<int> waits(plan_.steps.size(), 0);
    for (const StepIndex each : last) {
      for (const StepIndex later : later_[each]) ++waits[later];
    }
    std::priority_queue<StepIndex, std::vector<StepIndex>, std::greater<>> ready;
    for (const StepIndex each : last) {
      if (waits[each] == 0) ready.push(each);
    }
    std::vector<Step> steps;
    for (StepIndex i = 0; i < plan_.steps.size(); ++i) {
      if (!last.contains(i)) steps.push_back(std::move(plan_.steps[i]));
    }
    while (!ready.empty()) {
      const StepIndex each = ready.top();
      ready.pop();
      steps.push_back(std::move(plan_.steps[each]));
      for (const StepIndex later : later_[each]) {
        if (--waits[later] == 0) ready.push(later);
      }
    }
    plan_.steps = std::move(steps);
  }

  Plan& plan_;
  std::vector<std::optional<StepIndex>> producer_;  // by slot
  std::vector<std::set<StepIndex>> readers_;        // by slot
  std::vector<std::set<StepIndex>> later_;          // by step: those that must come behind it
  std::set<StepIndex> updating_;                    // steps that compute updates
  double updating_work_ = 0;
};

}  // namespace

void order_updates(Plan& plan) {
  const bool updates = std::ranges::any_of(plan.update_slots, [](std::int32_t update) { return update >= 0; });
  if (updates) Orderer(plan).run();
}

}  // namespace tessera::plan
