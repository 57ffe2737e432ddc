// The policy `predictive` (Chen et al., "Prophet: Precise QoS prediction on non-preemptive accelerators to improve
// utilization in warehouse-scale computers", ASPLOS 2017): two runs share the device at once only if the predicted
// interference on compute units, memory bandwidth and the link leaves every realtime run within its goal. Runs that may
// not compute together take turns, the more important first.
#include <vector>

#include "share/policy.h"

namespace tessera::share {
namespace {

constexpr std::size_t kTogether = 2;

class Predictive final : public Policy {
 public:
  Run* next(const DeviceState& device) override {
    std::vector<Run*> order(device.runs.begin(), device.runs.end());
    std::ranges::stable_sort(order, goes_before);
    std::vector<const Run*> admitted;
    for (Run* const run : order) {
      if (admitted.size() == kTogether) break;
      if (!admitted.empty() && !keeps_goals(*admitted[0], *run, device.now_ns)) continue;
      admitted.push_back(run);
      if (run->waits && may_begin(*run, device, admitted)) return run;
    }
    return nullptr;
  }

 private:
  static bool goes_before(const Run* a, const Run* b) {
    if (a->job->options.priority != b->job->options.priority)
      return a->job->options.priority > b->job->options.priority;
    return a->deadline_ns() < b->deadline_ns();
  }

  static bool keeps_goals(const Run& a, const Run& b, std::int64_t now_ns) {
    const double slowdown = (a.mean + b.mean).slowdown();
    const auto in_time = [&](const Run& run) {
      const double left_ns = static_cast<double>(run.left_ns);
      return !run.is(Priority::realtime) ||
             (run.has_goal() ? static_cast<std::int64_t>(left_ns * slowdown) <= run.deadline_ns() - now_ns
                             : slowdown == 1);
    };
    return in_time(a) && in_time(b);
  }

  // Steps in progress of runs that are not admitted end before others begin.
  static bool may_begin(const Run& run, const DeviceState& device, const std::vector<const Run*>& admitted) {
    return std::ranges::none_of(device.runs, [&](const Run* other) {
      const bool gives_way = device.preempts && other->job->options.priority < run.job->options.priority;
      return other->computes && !gives_way && std::ranges::find(admitted, other) == admitted.end();
    });
  }
};

}  // namespace

std::unique_ptr<Policy> make_predictive() {
  return std::make_unique<Predictive>();
}

}  // namespace tessera::share
