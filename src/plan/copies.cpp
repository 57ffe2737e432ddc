#include "plan/copies.h"

#include <algorithm>

#include "base/numbers/checked.h"
#include "plan/memory_plan.h"

namespace tessera::plan {
namespace {

using backends::MemorySpace;

class Conflicts {
 public:
  explicit Conflicts(const Plan& plan) : plan_(plan) {}

  bool between(const Step& copy, const Step& step) const {
    const bool to_host = copy.space == MemorySpace::host;
    const std::int32_t host = root_of(to_host ? copy.first_output : copy.inputs[0]);
    if (to_host) {
      for (const std::int32_t input : step.inputs) {
        if (input >= 0 && root_of(input) == host) return true;
      }
    }
    if (step.kind == StepKind::copy) return false;
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      if (writes_to(root_of(step.first_output + k), host)) return true;
    }
    return slot(host).place == Place::arena && step.scratch_bytes > 0 &&
           overlap(step.scratch_offset, step.scratch_bytes, slot(host).offset, bytes(host));
  }

 private:
  const Slot& slot(std::int32_t index) const { return plan_.slots[static_cast<std::size_t>(index)]; }
  std::int32_t root_of(std::int32_t index) const {
    return slot(index).place == Place::alias ? slot(index).source : index;
  }
  std::int64_t bytes(std::int32_t index) const { return byte_count(slot(index).type.dtype, *slot(index).type.shape()); }
  static bool overlap(std::int64_t a, std::int64_t a_bytes, std::int64_t b, std::int64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
  }
  bool writes_to(std::int32_t written, std::int32_t host) const {
    if (written == host) return true;
    return slot(written).place == Place::arena && slot(host).place == Place::arena &&
           overlap(slot(written).offset, bytes(written), slot(host).offset, bytes(host));
  }

  const Plan& plan_;
};

}  // namespace

void find_waits(Plan& plan) {
  const Conflicts conflict(plan);
  std::vector<std::size_t> copies;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    const bool is_copy = step.kind == StepKind::copy;
    // The host moves what a copy to the device reads, and may do so only when it has arrived.
    const bool waits =
        is_copy ? step.space == MemorySpace::device : step.space == MemorySpace::host && step.kind != StepKind::alias;
    if (is_copy) copies.push_back(i);
    if (!waits) continue;
    for (const MemorySpace direction : {MemorySpace::device, MemorySpace::host}) {
      for (std::size_t k = copies.size(); k-- > 0;) {
        Step& copy = plan.steps[copies[k]];
        if (copy.space != direction || &copy == &step || !conflict.between(copy, step)) continue;
        step.awaited_copies.push_back(static_cast<std::int32_t>(copies[k]));
        copy.is_awaited = true;
        break;
      }
    }
  }
}

void place_copies(Plan& plan) {
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::copy) continue;
    step.staging_offset = plan.staging_bytes;
    const ir::ValueType& type = plan.slots[static_cast<std::size_t>(step.first_output)].type;
    plan.staging_bytes =
        base::checked_add(plan.staging_bytes, base::round_up(byte_count(type.dtype, *type.shape()), kArenaAlignment));
  }
}

namespace {

bool is_enqueued(const Step& step) {
  return step.kind == StepKind::copy || step.space == MemorySpace::device;
}

// Whether the host writes an update over its variable, or takes an update that is not a result of its own and is
// computed before the first one is written.
bool settles(const Plan& plan) {
  if (plan.first_writing_step == SIZE_MAX) return false;
  const auto slot = [&](std::int32_t index) -> const Slot& { return plan.slots[static_cast<std::size_t>(index)]; };
  for (const std::size_t variable : plan.written_over) {
    if (slot(plan.variable_slots[variable]).space == MemorySpace::host) return true;
  }
  for (std::size_t i = 0; i < plan.update_slots.size(); ++i) {
    if (plan.update_slots[i] < 0) continue;
    const Slot& update = slot(plan.update_slots[i]);
    const bool is_own = update.place == Place::result && update.update_of == static_cast<std::int32_t>(i);
    if (!is_own && update.place != Place::variable) return true;
  }
  return false;
}

}  // namespace

void find_segments(Plan& plan) {
  plan.settles_before_writing = settles(plan);
  std::size_t first = 0;
  for (std::size_t i = 0; i <= plan.steps.size(); ++i) {
    const bool ends = i == plan.steps.size() || !is_enqueued(plan.steps[i]);
    const bool awaits_own = !ends && std::ranges::any_of(plan.steps[i].awaited_copies, [&](std::int32_t copy) {
      return copy >= static_cast<std::int32_t>(first);
    });
    const bool splits = (i == plan.first_writing_step && plan.settles_before_writing) || awaits_own ||
                        (!ends && !plan.steps[i].awaited_steps.empty());
    if ((splits || ends) && i >= first + 2) plan.segments.push_back({first, i});
    if (ends) first = i + 1;
    else if (splits) first = i;
  }
}

}  // namespace tessera::plan
