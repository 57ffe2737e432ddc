// Lets values of a plan share bytes: views lie in the values that they are views of, outputs take the place of an
// operand that is not used afterwards, and operands of a Concat along the outermost axis are written directly into its
// result.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

// The first and the last step, both included, at which the bytes of a slot are needed. Those of its aliases count as
// its own.
struct Lifetimes {
  std::vector<std::int64_t> first, last;  // by slot
};

// Turns slots into aliases where possible, and steps that have nothing left to do into alias steps. Expects `lifetimes`
// without aliases and updates them.
void share_storage(Plan& plan, Lifetimes& lifetimes, const PlanOptions& options);

// Makes the operands of each Concat parts of its result, where that is possible. The whole result is then live from the
// step that makes its first part. Returns false if nothing changed.
bool join_in_place(Plan& plan, Lifetimes& lifetimes);

}  // namespace tessera::plan
