// Steps on the host whose kernels go on after the step (backends/asynchronous.h), and the steps that wait for them.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace tessera::plan {

// Sets Step::is_asynchronous and Plan::has_asynchronous. Expects that the steps have their kernels. A step some of
// whose outputs have no planned size is not asynchronous: its kernel waits for its own work.
void find_asynchronous(Plan& plan);

// The last step during which the operands and the scratch memory of a step must stay as they are: the step itself. For
// an asynchronous one, the first step that reads its outputs, or the end of the plan if there is none. Expects the
// final order of steps.
std::int64_t last_use_of_operands(const Plan& plan, std::size_t step);

// Sets Step::awaited_steps: asynchronous steps whose outputs the step reads, or whose operands, outputs or scratch
// memory it writes to. The first step that writes over a variable waits for all, because nothing may fail after it.
// Expects the final order of steps and places of slots.
void find_awaited_steps(Plan& plan);

}  // namespace tessera::plan
