#include "plan/asynchronous_steps.h"

#include <algorithm>

#include "backends/asynchronous.h"
#include "plan/byte_use.h"

namespace tessera::plan {

using backends::MemorySpace;

void find_asynchronous(Plan& plan) {
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::kernel || step.space == MemorySpace::device ||
        dynamic_cast<const backends::AsynchronousKernel*>(step.kernel.get()) == nullptr)
      continue;
    step.is_asynchronous = true;
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const Place place = plan.slots[static_cast<std::size_t>(step.first_output + k)].place;
      step.is_asynchronous = step.is_asynchronous && (place == Place::arena || place == Place::none);
    }
    plan.has_asynchronous = plan.has_asynchronous || step.is_asynchronous;
  }
}

std::int64_t last_use_of_operands(const Plan& plan, std::size_t step) {
  const Step& own = plan.steps[step];
  if (!own.is_asynchronous) return static_cast<std::int64_t>(step);
  for (std::size_t i = step + 1; i < plan.steps.size(); ++i) {
    for (const std::int32_t input : plan.steps[i].inputs) {
      if (input >= own.first_output && input < own.first_output + own.output_count) return static_cast<std::int64_t>(i);
    }
  }
  return static_cast<std::int64_t>(plan.steps.size());
}

void find_awaited_steps(Plan& plan) {
  if (!plan.has_asynchronous) return;
  struct Pending {
    std::size_t step;
    std::vector<ByteUse> uses;
  };
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    std::vector<ByteUse> uses = uses_of(plan, step);
    std::erase_if(pending, [&](const Pending& earlier) {
      if (i != plan.first_writing_step && !conflict(earlier.uses, uses)) return false;
      step.awaited_steps.push_back(static_cast<std::int32_t>(earlier.step));
      return true;
    });
    if (step.is_asynchronous) pending.push_back({i, std::move(uses)});
  }
}

}  // namespace tessera::plan
