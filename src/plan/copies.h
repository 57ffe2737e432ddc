// Plans with steps on a device as well as on the host: finds the copies that host steps have to wait for, the place of
// each copy in staging memory, and the steps that can be recorded.
#pragma once

#include "plan/plan.h"

namespace tessera::plan {

// Sets Step::awaited_copies and Step::is_awaited. Expects that slots have their places in the arenas. Copies of a
// direction are done in order, so a step only waits for the last one that it conflicts with.
void find_waits(Plan& plan);

// Sets Step::staging_offset and Plan::staging_bytes.
void place_copies(Plan& plan);

// Sets Plan::settles_before_writing and Plan::segments. A segment begins at each step that awaits an asynchronous step,
// so that what comes before does not wait. Expects the final order of steps, places of slots and awaited steps.
void find_segments(Plan& plan);

}  // namespace tessera::plan
