// Moves updates that are written over their variables to the end of a plan.
#pragma once

#include "plan/plan.h"

namespace tessera::plan {

// Finds the updates of variables that can be written over the present values, moves the steps that compute them, and
// those that depend on them, behind all other steps, and fills `written_over` and `first_writing_step`. Expects that
// the steps have their kernels, and that the plan has its slots of outputs and updates. A plan without such updates is
// not changed.
//
// An update is written over its variable if
//  - it is computed by a kernel that can write over an operand (so it fails for no data), and the kernel may write over
//    every operand that is the variable;
//  - all other steps that read the present value, or a possible view of it, can run before, and neither the value nor
//    such a view is an output of the plan or the update of another variable;
//  - the steps that depend on the update are copies or have kernels, with results of known size, are not
//    asynchronous, and together cost no more than all updates do: they run when nothing may stop the run any more;
//  - the update is no output and no update of another variable, nor is a possible view of it.
void order_updates(Plan& plan);

}  // namespace tessera::plan
