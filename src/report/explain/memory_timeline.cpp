#include "report/explain/memory_timeline.h"

#include <algorithm>
#include <cmath>

namespace tessera::report {

std::int64_t kept_bytes(const plan::Plan& plan) {
  std::int64_t bytes = plan.constant_bytes;
  for (const std::int32_t slot : plan.variable_slots) {
    const ir::ValueType& type = plan.slots[static_cast<std::size_t>(slot)].type;
    if (const std::optional<Shape> shape = type.shape()) bytes += byte_count(type.dtype, *shape);
  }
  return bytes;
}

void scale(MemoryTimeline& timeline, double factor) {
  const auto scaled = [&](std::int64_t bytes) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(bytes) * factor));
  };
  timeline.arena_bytes = scaled(timeline.arena_bytes);
  timeline.weight_bytes = scaled(timeline.weight_bytes);
  for (std::int64_t& bytes : timeline.live_bytes) bytes = scaled(bytes);
}

MemoryTimeline memory_timeline(const plan::Plan& plan) {
  const auto steps = static_cast<std::int64_t>(plan.steps.size());
  MemoryTimeline timeline{std::vector<std::int64_t>(plan.steps.size(), 0), {}, plan.arena_bytes, kept_bytes(plan)};
  std::vector<std::int64_t> first(plan.slots.size(), -1), last(plan.slots.size(), -1);
  const auto root = [&](std::int32_t slot) {
    return static_cast<std::size_t>(plan.slots[static_cast<std::size_t>(slot)].place == plan::Place::alias
                                        ? plan.slots[static_cast<std::size_t>(slot)].source
                                        : slot);
  };
  for (std::int64_t i = 0; i < steps; ++i) {
    const plan::Step& step = plan.steps[static_cast<std::size_t>(i)];
    const auto touch = [&](std::int32_t slot) {
      if (slot < 0) return;
      const std::size_t index = root(slot);
      if (first[index] < 0) first[index] = i;
      last[index] = i;
    };
    for (const std::int32_t input : step.inputs) touch(input);
    for (std::int32_t k = 0; k < step.output_count; ++k) touch(step.first_output + k);
    const bool on_host = step.space == backends::MemorySpace::host;
    timeline.live_bytes[static_cast<std::size_t>(i)] += on_host ? step.scratch_bytes : 0;
    if (step.kind == plan::StepKind::copy) {
      timeline.step_names.push_back(plan::describe(plan, step));
      continue;
    }
    const ir::Node& node = plan.graph.node(step.node);
    timeline.step_names.push_back(node.name.empty() ? node.op : node.name);
  }
  for (const std::int32_t output : plan.output_slots) last[root(output)] = steps - 1;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const plan::Slot& slot = plan.slots[i];
    const std::optional<Shape> shape = slot.place == plan::Place::arena && slot.space == backends::MemorySpace::host
                                           ? slot.type.shape()
                                           : std::nullopt;
    if (!shape || first[i] < 0) continue;
    for (std::int64_t step = first[i]; step <= last[i]; ++step)
      timeline.live_bytes[static_cast<std::size_t>(step)] += byte_count(slot.type.dtype, *shape);
  }
  return timeline;
}

}  // namespace tessera::report
