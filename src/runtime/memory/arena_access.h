// Under the address sanitizer, a step may touch its own operands and scratch in the arena, each to its last byte, and
// nothing else there. Without it, nothing happens.
#pragma once

#include "base/poison.h"
#include "plan/plan.h"

namespace tessera::runtime {

// Closes the whole arena for the duration of a run.
class ClosedArena {
 public:
  ClosedArena(const plan::Plan& plan, const std::byte* arena)
      : arena_(arena), bytes_(arena != nullptr ? static_cast<std::size_t>(plan.arena_bytes) : 0) {
    base::poison(arena_, bytes_);
  }
  ~ClosedArena() { base::unpoison(arena_, bytes_); }
  ClosedArena(const ClosedArena&) = delete;
  ClosedArena& operator=(const ClosedArena&) = delete;

 private:
  const std::byte* arena_;
  std::size_t bytes_;
};

// Opens what one step needs.
class StepAccess {
 public:
  StepAccess(const plan::Plan& plan, const plan::Step& step, const std::byte* arena)
      : plan_(plan), step_(step), arena_(arena) {
    for_each_range(base::unpoison);
  }
  ~StepAccess() { for_each_range(base::poison); }
  StepAccess(const StepAccess&) = delete;
  StepAccess& operator=(const StepAccess&) = delete;

 private:
  template <typename Action>
  void for_each_range(Action action) const {
    if (!base::kCanPoison || arena_ == nullptr) return;
    const auto visit = [&](std::int32_t index) {
      if (index < 0) return;
      const plan::Slot& slot = plan_.slots[static_cast<std::size_t>(index)];
      const plan::Slot& root =
          slot.place == plan::Place::alias ? plan_.slots[static_cast<std::size_t>(slot.source)] : slot;
      if (root.place == plan::Place::arena)
        action(arena_ + root.offset + slot.view_offset,
               static_cast<std::size_t>(byte_count(slot.type.dtype, *slot.type.shape())));
    };
    for (const std::int32_t input : step_.inputs) visit(input);
    for (std::int32_t k = 0; k < step_.output_count; ++k) visit(step_.first_output + k);
    action(arena_ + step_.scratch_offset, static_cast<std::size_t>(step_.scratch_bytes));
  }

  const plan::Plan& plan_;
  const plan::Step& step_;
  const std::byte* arena_;
};

}  // namespace tessera::runtime
