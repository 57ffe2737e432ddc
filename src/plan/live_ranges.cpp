#include "plan/live_ranges.h"

#include <algorithm>

namespace tessera::plan {
namespace {

// The slot whose storage this one is a view of, or the slot itself.
std::size_t root_of(const Plan& plan, std::int32_t slot) {
  const Slot& found = plan.slots[static_cast<std::size_t>(slot)];
  return static_cast<std::size_t>(found.place == Place::alias ? found.source : slot);
}

}  // namespace

std::vector<ByteRange> live_ranges(const Plan& plan, std::size_t step) {
  std::vector<bool> made(plan.slots.size(), false), read(plan.slots.size(), false);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& each = plan.steps[i];
    if (i < step) {
      for (std::int32_t k = 0; k < each.output_count; ++k) made[root_of(plan, each.first_output + k)] = true;
      continue;
    }
    for (const std::int32_t input : each.inputs) {
      if (input >= 0) read[root_of(plan, input)] = true;
    }
  }
  for (const std::int32_t output : plan.output_slots) read[root_of(plan, output)] = true;
  for (const std::int32_t update : plan.update_slots) {
    if (update >= 0) read[root_of(plan, update)] = true;
  }
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (!made[i] || !read[i] || slot.place != Place::arena || slot.space != backends::MemorySpace::host) continue;
    const std::int64_t bytes = static_cast<std::int64_t>(byte_count(slot.type.dtype, *slot.type.shape()));
    if (bytes > 0) ranges.push_back({slot.offset, slot.offset + bytes});
  }
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) merged.back().end = std::max(merged.back().end, range.end);
    else merged.push_back(range);
  }
  return merged;
}

}  // namespace tessera::plan
