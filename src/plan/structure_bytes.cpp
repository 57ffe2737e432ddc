// The memory of a plan itself, which counts towards the limit of the cache of plans.
#include "plan/plan.h"

namespace tessera::plan {

using ir::heap_bytes;

std::int64_t structure_bytes(const Plan& plan) {
  // For each slot, the state of a run has a value and a copy of its shape.
  std::int64_t bytes = static_cast<std::int64_t>(plan.slots.capacity() * sizeof(Slot) +
                                                 plan.slots.size() * (sizeof(Value) + 4 * sizeof(std::int64_t)));
  for (const Slot& slot : plan.slots) bytes += heap_bytes(slot.type);
  bytes += static_cast<std::int64_t>(plan.steps.capacity() * sizeof(Step));
  for (const Step& step : plan.steps) {
    bytes += static_cast<std::int64_t>(step.inputs.capacity() * sizeof(std::int32_t) +
                                       (step.dying.capacity() + step.awaited_steps.capacity() +
                                        step.awaited_copies.capacity() + step.stream_waits.capacity()) *
                                           sizeof(std::int32_t) +
                                       step.inputs.size() * sizeof(void*));
    bytes += static_cast<std::int64_t>(step.output_types.capacity() * sizeof(ir::ValueType) +
                                       step.rejected.capacity() * sizeof(std::string) +
                                       step.packings.capacity() * sizeof(UsedPacking));
    for (const ir::ValueType& type : step.output_types) bytes += heap_bytes(type);
    for (const std::string& reason : step.rejected) bytes += heap_bytes(reason);
    bytes += 256;  // the kernel
  }
  return bytes + plan.graph.structure_bytes();
}

}  // namespace tessera::plan
