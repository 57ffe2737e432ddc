// The policy `fair`: one step at a time, of the job that has had the least device time for its weight.
//
// The time of a job is its measured device time over its weight, as in weighted fair queueing (Demers, Keshav, Shenker,
// "Analysis and simulation of a fair queueing algorithm", SIGCOMM 1989), but charged after a step has ended: what a job
// says about its steps counts for nothing. Long steps are paid back as the deficit of deficit round robin (Shreedhar,
// Varghese, SIGCOMM 1995) is. A job that comes back after a pause is owed at most kMostCreditNs, or else it would keep
// the device for as long as it was away.
//
// A job of short runs is away for microseconds between two of them. While it is owed time, the device waits for it for
// up to kPatienceNs, if it came back within that the last time (anticipatory scheduling: Iyer, Druschel, SOSP 2001).
#include "share/policy.h"

namespace tessera::share {
namespace {

class Fair final : public Policy {
 public:
  Run* next(const DeviceState& device) override {
    look_again_ns_ = kNever;
    Run* least = nullptr;
    for (Run* const run : device.runs) {
      if (run->computes) return nullptr;
      if (run->waits && (least == nullptr || time_of(*run) < time_of(*least))) least = run;
    }
    return least != nullptr && waits_for_another(device.now_ns, time_of(*least)) ? nullptr : least;
  }

  std::int64_t look_again_ns() const override { return look_again_ns_; }

  void run_arrived(const DeviceState& device, const Run& arrived) override {
    if (arrived.job->runs > 1) return;
    bool alone = true;
    double least = 0;
    for (const Run* const run : device.runs) {
      if (run->job == arrived.job) continue;
      least = alone ? time_of(*run) : std::min(least, time_of(*run));
      alone = false;
    }
    Account& account = accounts_[arrived.job->id];
    if (!alone) account.time_ns = std::max(account.time_ns, least - kMostCreditNs / arrived.job->options.weight);
    account.comes_back = account.left_ns != kNever && device.now_ns - account.left_ns <= kPatienceNs;
    account.left_ns = kNever;
  }

  void step_ended(const DeviceState&, const Run& run) override {
    accounts_[run.job->id].time_ns += static_cast<double>(run.measured_ns) / run.job->options.weight;
  }

  void run_ended(const DeviceState& device, const Run& run) override {
    if (run.job->runs == 0) accounts_[run.job->id].left_ns = device.now_ns;
  }

  void job_left(const JobState& job) override { accounts_.erase(job.id); }

 private:
  static constexpr double kMostCreditNs = 10e6;
  static constexpr std::int64_t kPatienceNs = 100'000;

  struct Account {
    double time_ns = 0;             // measured, over the weight
    std::int64_t left_ns = kNever;  // when its last run ended; kNever: a run of it is there
    bool comes_back = true;         // within kPatienceNs, as it did the last time
  };

  double time_of(const Run& run) { return accounts_[run.job->id].time_ns; }

  // Whether a job that is owed more than one with this time is likely to come at once.
  bool waits_for_another(std::int64_t now_ns, double time_ns) {
    for (const auto& [job, account] : accounts_) {
      if (account.left_ns == kNever || !account.comes_back || account.time_ns >= time_ns) continue;
      if (now_ns < account.left_ns + kPatienceNs)
        look_again_ns_ = std::min(look_again_ns_, account.left_ns + kPatienceNs);
    }
    return look_again_ns_ != kNever;
  }

  std::map<int, Account> accounts_;  // by job
  std::int64_t look_again_ns_ = kNever;
};

}  // namespace

std::unique_ptr<Policy> make_fair() {
  return std::make_unique<Fair>();
}

}  // namespace tessera::share
