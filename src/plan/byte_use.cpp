#include "plan/byte_use.h"

#include <algorithm>

namespace tessera::plan {
namespace {

using backends::MemorySpace;

std::int32_t arena_of(MemorySpace space) {
  return space == MemorySpace::device ? kDeviceArena : kHostArena;
}

ByteUse use_of(const Plan& plan, std::int32_t index, bool writes) {
  const Slot& slot = plan.slots[static_cast<std::size_t>(index)];
  const std::int32_t root_index = slot.place == Place::alias ? slot.source : index;
  const Slot& root = plan.slots[static_cast<std::size_t>(root_index)];
  const bool has_size = slot.type.is_tensor() && slot.type.dtype != DType::undefined &&
                        slot.type.dtype != DType::string && slot.type.shape().has_value();
  if (!has_size) return {root_index, 0, INT64_MAX, writes};
  const std::int64_t bytes = byte_count(slot.type.dtype, *slot.type.shape());
  if (root.place == Place::arena) {
    const std::int64_t begin = root.offset + slot.view_offset;
    return {arena_of(root.space), begin, begin + bytes, writes};
  }
  const bool is_over =
      root.place == Place::result && root.update_of >= 0 &&
      std::ranges::find(plan.written_over, static_cast<std::size_t>(root.update_of)) != plan.written_over.end();
  const std::int32_t of = is_over ? plan.variable_slots[static_cast<std::size_t>(root.update_of)] : root_index;
  return {of, slot.view_offset, slot.view_offset + bytes, writes};
}

}  // namespace

std::vector<ByteUse> uses_of(const Plan& plan, const Step& step) {
  std::vector<ByteUse> uses;
  if (step.kind == StepKind::alias) return uses;
  const auto add = [&](const ByteUse& use) {
    if (use.end > use.begin) uses.push_back(use);
  };
  for (const std::int32_t input : step.inputs) {
    if (input >= 0 && plan.slots[static_cast<std::size_t>(input)].place != Place::constant)
      add(use_of(plan, input, false));
  }
  for (std::int32_t k = 0; k < step.output_count; ++k) {
    const std::int32_t output = step.first_output + k;
    if (plan.slots[static_cast<std::size_t>(output)].place != Place::none) add(use_of(plan, output, true));
  }
  add({arena_of(step.space), step.scratch_offset, step.scratch_offset + step.scratch_bytes, true});
  return uses;
}

bool conflict(const std::vector<ByteUse>& a, const std::vector<ByteUse>& b) {
  return std::ranges::any_of(a, [&](const ByteUse& one) {
    return std::ranges::any_of(b, [&](const ByteUse& other) {
      return (one.writes || other.writes) && one.of == other.of && one.begin < other.end && other.begin < one.end;
    });
  });
}

}  // namespace tessera::plan
