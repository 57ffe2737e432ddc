#include "share/gated_run.h"

namespace tessera::share {
namespace {

// How long a run waits at most before it looks whether it was cancelled.
constexpr std::int64_t kLookNs = 20'000'000;
// The time that the cost model predicts for a step that does nothing.
constexpr double kOverheadNs = 500;
constexpr double kHistoryRate = 0.1;
// One of so many runs of a kind is measured step by step while nobody disturbs the job.
constexpr std::int64_t kMeasuredEvery = 8;

Demand scaled(const Demand& demand, double factor) {
  return {demand.compute * factor, demand.bandwidth * factor, demand.link * factor};
}

}  // namespace

void RunHistory::add(double ns, const Demand& demand) {
  ++runs;
  const double rate = std::max(1.0 / static_cast<double>(runs), kHistoryRate);
  device_ns += (ns - device_ns) * rate;
  mean = scaled(mean, 1 - rate) + scaled(demand, rate);
}

GatedRun::GatedRun(ArbiterState& arbiter, JobState& job, RunHistory& history, cost::Predictor& predictor,
                   SpillCount& spills)
    : arbiter_(arbiter),
      job_(job),
      spills_(spills),
      history_(history),
      predictor_(predictor),
      signal_(arbiter.clock->make_signal()) {
  memory_.job = job.id;
  memory_.may_spill = job.options.priority == Priority::background;
  memory_.signal = signal_.get();
  arbiter_.memory.add(memory_);
  const std::lock_guard lock(arbiter_.mutex);
  may_join_steps_ = job.options.priority != Priority::background && history_.runs % kMeasuredEvery != 0 &&
                    history_.runs > kMeasuredEvery;
  const std::int64_t now_ns = arbiter_.clock->now_ns();
  run_.owner = this;
  run_.arrival_ns = now_ns;
  run_.left_ns = static_cast<std::int64_t>(history_.device_ns);
  if (history_.runs > 0) run_.mean = history_.mean;
  arbiter_.scheduler.arrive(run_, job, now_ns);
}

GatedRun::~GatedRun() {
  const std::int64_t now_ns = arbiter_.clock->now_ns();
  arbiter_.memory.remove(memory_, now_ns);
  const std::lock_guard lock(arbiter_.mutex);
  if (run_.computes) end_step(now_ns);
  if (device_ns_ > 0) history_.add(device_ns_, scaled(weighted_, 1 / device_ns_));
  if (is_there_) arbiter_.scheduler.end_run(run_, now_ns);
  begin_steps(now_ns);
}

void GatedRun::end_step(std::int64_t now_ns) {
  arbiter_.scheduler.end_step(run_, now_ns);
  const double measured_ns = static_cast<double>(run_.measured_ns);
  if (known_ && !joined_) predictor_.judge(predicted_ns_, measured_ns);
  if (!disturbed_ && !joined_) predictor_.learn(key_, modelled_ns_, measured_ns);
  device_ns_ += measured_ns;
  weighted_ = weighted_ + scaled(joined_ ? run_.mean : run_.demand, measured_ns);
  joined_ = false;
}

void GatedRun::ask(const StepInfo& step, std::int64_t now_ns) {
  key_ = cost::step_key(step.op, step.operations, step.bytes);
  const double compute_ns = step.operations / arbiter_.machine.operations_per_second * 1e9;
  const double memory_ns = step.bytes / arbiter_.machine.bytes_per_second * 1e9;
  modelled_ns_ = std::max(compute_ns, memory_ns) + kOverheadNs;
  predicted_ns_ = predictor_.predict(key_, modelled_ns_);
  known_ = predictor_.knows(key_);
  run_.step_ns = static_cast<std::int64_t>(predicted_ns_);
  run_.left_ns = std::max(run_.step_ns, static_cast<std::int64_t>(history_.device_ns - device_ns_));
  run_.demand = {compute_ns / modelled_ns_, memory_ns / modelled_ns_, 0};
  disturbed_ = false;
  asked_ = true;
  arbiter_.scheduler.ask(run_, now_ns);
}

// Wakes the runs that may begin. The policy may want to look again at a time that nobody waits for yet: then one of
// the waiting runs is woken to do so.
void GatedRun::begin_steps(std::int64_t now_ns) {
  for (Run* const begun : arbiter_.scheduler.begin_steps(now_ns)) {
    if (begun != &run_) static_cast<GatedRun*>(begun->owner)->signal_->notify();
  }
  const DeviceState& device = arbiter_.scheduler.device();
  if (std::ranges::count_if(device.runs, &Run::computes) > 1) {
    for (const Run* const run : device.runs) {
      if (run->computes) static_cast<GatedRun*>(run->owner)->disturbed_ = true;
    }
  }
  if (arbiter_.scheduler.look_again_ns() == kNever || run_.waits) return;
  const auto waiting = std::ranges::find_if(device.runs, &Run::waits);
  if (waiting != device.runs.end()) static_cast<GatedRun*>((*waiting)->owner)->signal_->notify();
}

bool GatedRun::may_pass(const StepInfo& step) {
  const std::lock_guard lock(arbiter_.mutex);
  if (may_join_steps_ && run_.computes && !asked_ && arbiter_.scheduler.device().runs.size() == 1) {
    joined_ = true;
    return true;
  }
  if (!asked_) {
    const std::int64_t now_ns = arbiter_.clock->now_ns();
    if (run_.computes) end_step(now_ns);
    ask(step, now_ns);
    begin_steps(now_ns);
  }
  if (!run_.computes) return false;
  asked_ = false;
  return true;
}

void GatedRun::wait(const StepInfo&) {
  const std::int64_t start_ns = arbiter_.clock->now_ns();
  std::int64_t now_ns = start_ns;
  while (now_ns < start_ns + kLookNs) {
    std::int64_t until_ns = start_ns + kLookNs;
    {
      const std::lock_guard lock(arbiter_.mutex);
      now_ns = arbiter_.clock->now_ns();
      if (!run_.computes && arbiter_.scheduler.look_again_ns() <= now_ns) begin_steps(now_ns);
      if (run_.computes) break;
      until_ns = std::min(until_ns, arbiter_.scheduler.look_again_ns());
    }
    signal_->wait_until(until_ns);
    now_ns = arbiter_.clock->now_ns();
  }
  waited_ns_ += now_ns - start_ns;
}

bool GatedRun::try_take(std::int64_t bytes, bool holds_more) {
  const bool granted = arbiter_.memory.try_take(memory_, bytes, holds_more, arbiter_.clock->now_ns());
  if (granted && !is_there_) come_back();
  return granted;
}

void GatedRun::wait() {
  if (is_there_) leave();
  signal_->wait_until(arbiter_.clock->now_ns() + kLookNs);
}

void GatedRun::give_back(std::int64_t bytes) noexcept {
  arbiter_.memory.give_back(memory_, bytes, arbiter_.clock->now_ns());
}

void GatedRun::spilled(std::int64_t written_bytes, std::int64_t took_ns) noexcept {
  memory_.quiet_ns = std::min(took_ns, kMostQuietNs);
  const std::lock_guard lock(arbiter_.mutex);
  ++spills_.spills;
  spills_.written_bytes += written_bytes;
}

void GatedRun::leave() {
  const std::lock_guard lock(arbiter_.mutex);
  const std::int64_t now_ns = arbiter_.clock->now_ns();
  if (run_.computes) end_step(now_ns);
  asked_ = false;
  arbiter_.scheduler.end_run(run_, now_ns);
  is_there_ = false;
  begin_steps(now_ns);
}

void GatedRun::come_back() {
  const std::lock_guard lock(arbiter_.mutex);
  arbiter_.scheduler.arrive(run_, job_, arbiter_.clock->now_ns());
  is_there_ = true;
}

}  // namespace tessera::share
