// The policy `fill`: classes go in order, and background steps run only while no more important run is there, held back
// by a feedback loop on the measured latency of realtime runs (Xiao et al., "AntMan: Dynamic scaling on GPU clusters
// for deep learning", OSDI 2020, section 4.2: the delay between launches of opportunistic jobs adapts to the
// performance of the job with guarantees).
//
// The loop is additive increase, multiplicative decrease (Chiu, Jain, 1989): `share` is the part of idle time that
// background work may use. It halves when a realtime run misses its goal, at most once a kHalvingNs, and grows by
// kGrowth with each that meets it; while none has ended for kQuietNs it doubles with each background step. After a
// background step of length t the next one waits t · (1 − share) / share; a step that began before anything was missed
// may have been long and is paid for up to kMostPaidNs.
//
// Not every miss is the background's fault: requests that come at random wait for each other, and other programs
// compute too. So misses are counted apart for runs that found a background step computing and for those that did not,
// and only where the first miss more often (by kBlamed, as averages over about kMemory runs) the share halves.
#include <set>

#include "share/policy.h"

namespace tessera::share {
namespace {

class Fill final : public Policy {
 public:
  Run* next(const DeviceState& device) override {
    look_again_ns_ = kNever;
    Run* first = nullptr;
    for (Run* const run : device.runs) {
      if (first == nullptr || goes_before(*run, *first)) first = run;
    }
    if (first == nullptr) return nullptr;
    // A run in progress keeps lower classes out even while it computes on the host between two steps.
    const Priority highest = first->job->options.priority;
    first = nullptr;
    for (Run* const run : device.runs) {
      if (run->is(highest) && run->waits && (first == nullptr || goes_before(*run, *first))) first = run;
    }
    if (first == nullptr || !device.is_free_for(*first)) return nullptr;
    if (highest == Priority::background && device.now_ns < held_until_ns_) {
      look_again_ns_ = held_until_ns_;
      return nullptr;
    }
    return first;
  }

  bool puts_classes_first() const override { return true; }
  bool holds_back() const override { return share_ < 1; }
  std::int64_t look_again_ns() const override { return look_again_ns_; }

  void step_ended(const DeviceState& device, const Run& run) override {
    if (!run.is(Priority::background) || share_ >= 1) return;
    if (device.now_ns - goal_ended_ns_ > kQuietNs) share_ = std::min(1.0, 2 * share_);
    const double step_ns = static_cast<double>(std::min(run.measured_ns, kMostPaidNs));
    held_until_ns_ = device.now_ns + static_cast<std::int64_t>(step_ns * (1 - share_) / share_);
  }

  void run_arrived(const DeviceState& device, const Run& run) override {
    if (run.has_goal() && std::ranges::any_of(device.runs, [](const Run* other) {
          return other->computes && other->is(Priority::background);
        }))
      beside_.insert(run.number);
  }

  void run_ended(const DeviceState& device, const Run& run) override {
    if (!run.has_goal()) return;
    goal_ended_ns_ = device.now_ns;
    const bool beside = beside_.erase(run.number) > 0, misses = device.now_ns > run.deadline_ns();
    double& rate = beside ? missed_beside_ : missed_alone_;
    rate += ((misses ? 1 : 0) - rate) / kMemory;
    if (!misses || !beside || missed_beside_ < kBlamed * missed_alone_) {
      share_ = std::min(1.0, share_ + kGrowth);
    } else if (device.now_ns >= halved_ns_ + kHalvingNs) {
      share_ = std::max(kLeastShare, share_ / 2);
      halved_ns_ = device.now_ns;
    }
  }

 private:
  static constexpr double kGrowth = 0.05, kLeastShare = 0.05;
  static constexpr std::int64_t kHalvingNs = 1'000'000, kQuietNs = 100'000'000, kMostPaidNs = 20'000'000;

  // By class; realtime runs by deadline; others of a class by what their jobs have had for their weight.
  static bool goes_before(const Run& a, const Run& b) {
    if (a.job->options.priority != b.job->options.priority) return a.job->options.priority > b.job->options.priority;
    if (a.is(Priority::realtime)) return a.deadline_ns() < b.deadline_ns();
    return static_cast<double>(a.job->device_ns) / a.job->options.weight <
           static_cast<double>(b.job->device_ns) / b.job->options.weight;
  }

  static constexpr double kMemory = 50, kBlamed = 1.5;

  double share_ = 1;
  double missed_beside_ = 0, missed_alone_ = 0;  // parts of the runs
  std::set<std::int64_t> beside_;                // numbers of runs that found a background step computing
  std::int64_t held_until_ns_ = 0, look_again_ns_ = kNever;
  std::int64_t goal_ended_ns_ = 0;
  std::int64_t halved_ns_ = std::numeric_limits<std::int64_t>::min() / 2;
};

}  // namespace

std::unique_ptr<Policy> make_fill() {
  return std::make_unique<Fill>();
}

}  // namespace tessera::share
