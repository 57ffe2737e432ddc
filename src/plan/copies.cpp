#include "plan/copies.h"

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
    if (step.kind == StepKind::copy) {
      copies.push_back(i);
      continue;
    }
    if (step.space == MemorySpace::device || step.kind == StepKind::alias) continue;
    for (std::size_t k = copies.size(); k-- > 0 && step.awaited < 0;) {
      Step& copy = plan.steps[copies[k]];
      if (!conflict.between(copy, step)) continue;
      step.awaited = static_cast<std::int32_t>(copies[k]);
      copy.is_awaited = true;
    }
  }
}

void find_recordable(Plan& plan) {
  const auto copies_to = [&](std::size_t i, MemorySpace space) {
    return plan.steps[i].kind == StepKind::copy && plan.steps[i].space == space;
  };
  std::size_t first = 0, end = plan.steps.size();
  while (first < end && copies_to(first, MemorySpace::device)) ++first;
  while (end > first && copies_to(end - 1, MemorySpace::host)) --end;
  for (std::size_t i = first; i < end; ++i) {
    if (plan.steps[i].space == MemorySpace::host || plan.steps[i].kind == StepKind::copy) return;
  }
  plan.first_recordable = first;
  plan.end_recordable = end;
}

}  // namespace tessera::plan
