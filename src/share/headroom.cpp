// The policy `headroom` (Chen, Yang, Mars, Tang, "Baymax: QoS awareness and increased utilization for non-preemptive
// accelerators in warehouse scale computers", ASPLOS 2016): the headroom of a realtime run is the time to its deadline
// less the predicted work up to its end. Other work goes first as long as the headroom of every realtime run that is
// there pays for its step; then realtime runs go, the one with the least headroom first. One step computes at a time;
// transfers over the link go beside it, kMostTransfers of them at most, since more would slow each other.
#include <vector>

#include "share/policy.h"

namespace tessera::share {
namespace {

constexpr int kMostTransfers = 2;

class Headroom final : public Policy {
 public:
  Run* next(const DeviceState& device) override {
    const std::vector<Run*> urgent = by_headroom(device);
    const std::int64_t spare_ns = spare(urgent, device.now_ns);
    if (Run* const other = first_of_others(device, spare_ns)) return other;
    for (Run* const run : urgent) {
      if (run->waits && has_place(*run, device)) return run;
    }
    return nullptr;
  }

 private:
  static std::vector<Run*> by_headroom(const DeviceState& device) {
    std::vector<Run*> urgent;
    for (Run* const run : device.runs) {
      if (run->is(Priority::realtime)) urgent.push_back(run);
    }
    std::ranges::stable_sort(urgent, {}, [](const Run* run) {
      return run->deadline_ns() == kNever ? kNever : run->deadline_ns() - run->left_ns;
    });
    return urgent;
  }

  // How long other work may take so that each of these, one after the other, still ends in time.
  static std::int64_t spare(const std::vector<Run*>& urgent, std::int64_t now_ns) {
    std::int64_t least = kNever, ends_ns = now_ns;
    for (const Run* const run : urgent) {
      ends_ns += run->left_ns;
      // A run without a goal wants to end as soon as it can.
      least = std::min(least, run->has_goal() ? run->deadline_ns() - ends_ns : 0);
    }
    return least;
  }

  static bool has_place(const Run& run, const DeviceState& device) {
    const bool transfers = run.demand.is_transfer();
    const auto beside = std::ranges::count_if(device.runs, [&](const Run* other) {
      return other->computes && other->demand.is_transfer() == transfers &&
             !(device.preempts && other->job->options.priority < run.job->options.priority);
    });
    return beside < (transfers ? kMostTransfers : 1);
  }

  // By class, then by what the job has had for its weight.
  static Run* first_of_others(const DeviceState& device, std::int64_t spare_ns) {
    const auto rank = [](const Run& run) {
      return std::pair(-static_cast<int>(run.job->options.priority),
                       static_cast<double>(run.job->device_ns) / run.job->options.weight);
    };
    Run* first = nullptr;
    for (Run* const run : device.runs) {
      if (run->is(Priority::realtime) || !run->waits || run->step_ns > spare_ns || !has_place(*run, device)) continue;
      if (first == nullptr || rank(*run) < rank(*first)) first = run;
    }
    return first;
  }
};

}  // namespace

std::unique_ptr<Policy> make_headroom() {
  return std::make_unique<Headroom>();
}

}  // namespace tessera::share
