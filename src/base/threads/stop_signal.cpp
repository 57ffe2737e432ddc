#include "base/threads/stop_signal.h"

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::base {

StopSignal::StopSignal(const std::atomic<bool>* cancelled, std::chrono::nanoseconds time_limit, Clock& clock)
    : cancelled_(cancelled), limit_(time_limit), clock_(&clock) {}

void StopSignal::report_cancelled() {
  fail(ErrorKind::cancelled, "the run was cancelled");
}

void StopSignal::report_late() const {
  fail(ErrorKind::over_budget, "the run takes longer than its limit of {}", format_duration_ns(limit_.count()));
}

}  // namespace tessera::base
