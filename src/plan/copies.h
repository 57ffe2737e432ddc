// Plans with steps on a device as well as on the host: finds the copies that host steps have to wait for, and the steps
// that can be recorded.
#pragma once

#include "plan/plan.h"

namespace tessera::plan {

// Sets Step::awaited and Step::is_awaited. Expects that slots have their places in the arenas. Work on the device is
// done in order, so a step only waits for the last copy that it conflicts with.
void find_waits(Plan& plan);

// Sets Plan::first_recordable and end_recordable.
void find_recordable(Plan& plan);

}  // namespace tessera::plan
