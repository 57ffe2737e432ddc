// Updates that are written over their variables come last in a plan.
#pragma once

#include "plan/plan.h"

namespace tessera::plan {

// Finds the updates of variables that can be written over the present values, moves the steps that compute them and
// what depends on these behind all others, and fills `written_over` and `first_writing_step`. Expects the steps to have
// their kernels, and the plan its slots of outputs and updates. Order and results of a plan without such updates stay
// the same.
//
// An update is written over its variable if
//  - a kernel computes it that can write over an operand (so it fails for no data), and every operand that is the
//    variable is one that it may write over;
//  - whatever else reads the present value, or what may be a view of it, can be done before, and is no output of the
//    plan and no update of another variable;
//  - what depends on the update are steps with kernels and results of known size, which cost together no more than all
//    updates do: they run when nothing may stop the run any more;
//  - it is no output, nor is a view of it.
void order_updates(Plan& plan);

}  // namespace tessera::plan
