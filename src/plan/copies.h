// What steps on the host have to wait for in a plan that also has steps on a device, and which of these can be
// recorded.
#pragma once

#include "plan/plan.h"

namespace tessera::plan {

// Sets Step::awaited and Step::is_awaited. Slots have their places in the arenas. Work on the device is in order, so a
// step waits for the last copy alone that it conflicts with.
void find_waits(Plan& plan);

// Sets Plan::first_recordable and end_recordable.
void find_recordable(Plan& plan);

}  // namespace tessera::plan
