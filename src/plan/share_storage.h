// Values of a plan that share bytes: views lie in what they are views of, outputs take the place of an operand that
// dies, and what is joined along the outermost axis is written where it will lie.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

// From which step to which step, both included, the bytes of a slot are needed, those of its aliases included.
struct Lifetimes {
  std::vector<std::int64_t> first, last;  // by slot
};

// Makes slots aliases, and steps that have nothing left to do views. `lifetimes` are those of the slots alone.
void share_storage(Plan& plan, Lifetimes& lifetimes, const PlanOptions& options);

// The operands of every Concat that can have it so become parts of its result. A part that is made early keeps the
// place of all. False if nothing changed.
bool join_in_place(Plan& plan, Lifetimes& lifetimes);

}  // namespace tessera::plan
