#include "share/lease_keeper.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <new>

#include "base/error.h"
#include "runtime/memory/run_memory.h"
#include "share/simulation.h"

namespace tessera::share {

using lease::Activity;
using lease::Board;

struct LeaseKeeper::Lessee {
  int number = 0;
  JobState* job = nullptr;
  pid_t process = 0;
  std::int64_t attached_ns = 0;
  bool present = false;  // it has a run with the scheduler
  Run run;
  std::int64_t seen_arrival_ns = 0;
  std::int64_t idle_ns = kNever;  // since when it has no run, while it keeps its turn nevertheless
  double mean_ns = 0;             // device time of its runs
  std::int64_t term_start_ns = 0;
  bool has_to_wake = false;  // it was granted its turn and has not been seen to take it
  // Signs that the job makes progress.
  std::uint64_t progress = 0;
  std::int64_t step_ns = 0, moved_ns = 0, processor_ns = 0;
  bool lost = false;
  TemporaryMemory borrowed;

  Priority priority() const { return job->options.priority; }
};

namespace {

// Between two runs of a process that has its turn, so much time may pass.
constexpr std::int64_t kGapNs = 300'000;
constexpr std::int64_t kBusyLookNs = 10'000'000, kIdleLookNs = 200'000'000;
constexpr std::int64_t kLeastProcessorNs = 100'000;

std::int64_t processor_ns_of(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

void check(const JobOptions& options) {
  require(!options.name.empty(), ErrorKind::invalid_argument, "a job needs a name");
  require(options.weight > 0 && std::isfinite(options.weight), ErrorKind::invalid_argument,
          "job '{}' has the weight {}, expected a number above 0", options.name, options.weight);
  require(options.goal_ns >= 0 && options.guarantee_bytes >= 0 && options.limit_bytes >= 0, ErrorKind::invalid_argument,
          "job '{}' has a negative goal or memory", options.name);
  require(static_cast<int>(options.priority) < kPriorities, ErrorKind::invalid_argument, "job '{}' has no known class",
          options.name);
}

}  // namespace

LeaseKeeper::LeaseKeeper(const std::string& policy, std::int64_t memory_bytes)
    : scheduler_(policy, memory_bytes, true), memory_(memory_bytes) {
  board_->has_memory_limit = memory_bytes > 0;
}
LeaseKeeper::~LeaseKeeper() = default;

LeaseKeeper::Lessee& LeaseKeeper::find(int number) {
  const auto found = std::ranges::find(jobs_, number, &Lessee::number);
  require(found != jobs_.end(), ErrorKind::invalid_argument, "there is no job {}", number);
  return *found;
}

lease::BoardSlot& LeaseKeeper::slot_of(const Lessee& job) const {
  return board_->slots[static_cast<std::size_t>(job.number)];
}

int LeaseKeeper::add_job(const JobOptions& options, pid_t process, std::int64_t now_ns) {
  check(options);
  require(jobs_.size() < lease::kMostJobs, ErrorKind::over_budget,
          "{} jobs are attached, which is as many as can be; end one of them", jobs_.size());
  const std::uint64_t taken = board_->attached.load();
  // Numbers go round: a process that lost its connection may write to its former place for a moment.
  while ((taken & Board::bit(next_number_)) != 0) next_number_ = (next_number_ + 1) % lease::kMostJobs;
  JobState& state = scheduler_.add_job(options);
  try {
    memory_.add_job(state.id, options);
  } catch (...) {
    scheduler_.remove_job(state);
    throw;
  }
  Lessee& job = jobs_.emplace_back();
  job.number = next_number_;
  next_number_ = (next_number_ + 1) % lease::kMostJobs;
  job.job = &state;
  job.process = process;
  job.attached_ns = now_ns;
  job.borrowed.job = state.id;
  job.borrowed.may_spill = options.priority == Priority::background;
  memory_.add(job.borrowed);
  lease::BoardSlot& slot = *new (&slot_of(job)) lease::BoardSlot;
  slot.priority = static_cast<std::uint32_t>(options.priority);
  board_->attached |= Board::bit(job.number);
  board_->contended = jobs_.size() > 1;
  look(now_ns);
  return job.number;
}

void LeaseKeeper::remove_job(int number, std::int64_t now_ns) {
  Lessee& job = find(number);
  if (job.present) finish(job, now_ns);
  memory_.remove(job.borrowed, now_ns);
  memory_.remove_job(job.job->id);
  scheduler_.remove_job(*job.job);
  revoke(job);
  slot_of(job).activity = Activity::idle;
  board_->waiting &= ~Board::bit(number);
  board_->attached &= ~Board::bit(number);
  board_->clear_active(number, static_cast<Priority>(slot_of(job).priority.load()));
  jobs_.remove_if([&](const Lessee& each) { return &each == &job; });
  board_->contended = jobs_.size() > 1;
  look(now_ns);
}

void LeaseKeeper::charge(int number, std::int64_t bytes, const std::string& what) {
  require(bytes >= 0, ErrorKind::invalid_argument, "a job cannot be charged {} bytes", bytes);
  memory_.charge(find(number).job->id, bytes, what);
  tell_what_is_wanted();
}

void LeaseKeeper::release(int number, std::int64_t bytes) {
  const Lessee& job = find(number);
  const int id = job.job->id;
  const std::int64_t firm = memory_.used_bytes(id) - job.borrowed.bytes;
  require(bytes >= 0 && bytes <= firm, ErrorKind::invalid_argument, "a job cannot give back {} bytes of {}", bytes,
          firm);
  memory_.release(id, bytes);
}

bool LeaseKeeper::borrow(int number, std::int64_t bytes, std::int64_t quiet_ns, std::int64_t now_ns) {
  Lessee& job = find(number);
  require(bytes >= 0 && job.borrowed.may_spill, ErrorKind::invalid_argument,
          "a job of this class cannot borrow {} bytes", bytes);
  job.borrowed.quiet_ns = std::clamp<std::int64_t>(quiet_ns, 0, runtime::RunMemory::kMostQuietNs);
  return memory_.try_take(job.borrowed, bytes, false, now_ns);
}

void LeaseKeeper::give_back(int number, std::int64_t bytes, std::int64_t now_ns) {
  Lessee& job = find(number);
  require(bytes >= 0 && bytes <= job.borrowed.bytes, ErrorKind::invalid_argument,
          "a job cannot give back {} bytes of {}", bytes, job.borrowed.bytes);
  memory_.give_back(job.borrowed, bytes, now_ns);
  tell_what_is_wanted();
}

void LeaseKeeper::tell_what_is_wanted() {
  for (const Lessee& job : jobs_) slot_of(job).wanted_bytes = job.borrowed.wanted.load();
}

void LeaseKeeper::arrive(Lessee& job, std::int64_t now_ns) {
  // A claim of the process: neither in the future nor before its former run or before it was there.
  const std::int64_t least_ns = std::min(std::max(job.run.arrival_ns, job.attached_ns), now_ns);
  job.present = true;
  job.seen_arrival_ns = slot_of(job).arrival_ns.load();
  job.run = Run{};
  job.run.owner = &job;
  job.run.arrival_ns = std::clamp(job.seen_arrival_ns, least_ns, now_ns);
  job.run.left_ns = static_cast<std::int64_t>(job.mean_ns);
  job.run.step_ns = std::min(job.run.left_ns, kTermNs);
  job.term_start_ns = job.step_ns = job.moved_ns = now_ns;
  scheduler_.arrive(job.run, *job.job, now_ns);
  scheduler_.ask(job.run, now_ns);
  if (!job.run.has_goal()) return;
  // Where only the class of the run keeps others from computing, they see on the board when it ends, and go on without
  // waiting for the daemon. Elsewhere they have to ask again, so that the policy may hold them back.
  if (scheduler_.puts_classes_first() && !scheduler_.holds_back()) return;
  for (Lessee& other : jobs_) {
    if (other.present && other.run.computes && other.priority() < job.priority()) end_term(other, now_ns);
  }
}

void LeaseKeeper::finish(Lessee& job, std::int64_t now_ns) {
  constexpr double kRate = 0.1;
  const std::int64_t before_ns = job.job->device_ns - job.run.measured_ns;
  if (job.run.computes) scheduler_.end_step(job.run, now_ns);
  scheduler_.end_run(job.run, now_ns);
  const double took_ns = static_cast<double>(job.job->device_ns - before_ns);
  job.mean_ns = job.mean_ns == 0 ? took_ns : job.mean_ns + (took_ns - job.mean_ns) * kRate;
  job.present = false;
  job.idle_ns = kNever;
}

void LeaseKeeper::end_term(Lessee& job, std::int64_t now_ns) {
  job.has_to_wake = false;
  scheduler_.end_step(job.run, now_ns);
  scheduler_.ask(job.run, now_ns);
}

void LeaseKeeper::observe(Lessee& job, std::int64_t now_ns) {
  const lease::BoardSlot& slot = slot_of(job);
  const Activity activity = slot.activity.load();
  const std::uint64_t progress = slot.progress.load();
  if (progress != job.progress || activity == Activity::idle) {
    job.lost = false;
    job.step_ns = job.moved_ns = now_ns;
  }
  job.progress = progress;
  if (job.lost) return;
  if (keeps_turn(job, activity, now_ns)) return;
  // A job that is served by steps and begins its next run at once goes on with the one that the scheduler knows.
  const bool next_run =
      job.present && slot.arrival_ns.load() != job.seen_arrival_ns && (job.run.has_goal() || scheduler_.goes_by_runs());
  if (job.present && (activity == Activity::idle || next_run)) finish(job, now_ns);
  if (activity == Activity::idle) return;
  if (!job.present) arrive(job, now_ns);
  if (activity != Activity::waits) job.has_to_wake = false;
  if (activity == Activity::waits && job.run.computes && !job.has_to_wake) end_term(job, now_ns);
  if (job.run.computes && stands_still(job, now_ns)) lose(job, now_ns);
}

// Whether the job may be about to begin its next run. One with a goal says at once what it does.
bool LeaseKeeper::keeps_turn(Lessee& job, Activity activity, std::int64_t now_ns) {
  if (activity != Activity::idle || !job.present || !job.run.computes || job.run.has_goal()) {
    job.idle_ns = kNever;
    return false;
  }
  job.idle_ns = std::min(job.idle_ns, now_ns);
  return now_ns - job.idle_ns < kGapNs;
}

bool LeaseKeeper::stands_still(Lessee& job, std::int64_t now_ns) {
  if (board_->active_above(job.priority()) != 0) job.step_ns = job.moved_ns = now_ns;  // it is held
  if (now_ns - job.moved_ns < kStallNs / 2) return false;
  const std::int64_t processor_ns = processor_ns_of(job.process);
  if (processor_ns > job.processor_ns + kLeastProcessorNs) job.moved_ns = now_ns;
  job.processor_ns = processor_ns;
  return now_ns - job.moved_ns > kStallNs || now_ns - job.step_ns > kMostStepNs;
}

void LeaseKeeper::lose(Lessee& job, std::int64_t now_ns) {
  finish(job, now_ns);
  revoke(job);
  job.lost = true;
  board_->waiting &= ~Board::bit(job.number);
  board_->clear_active(job.number, job.priority());
}

void LeaseKeeper::grant(Lessee& job, std::int64_t now_ns) {
  lease::BoardSlot& slot = slot_of(job);
  job.term_start_ns = now_ns;
  job.has_to_wake = slot.activity.load() == Activity::waits;
  slot.granted = 1;
  wake(slot);
}

void LeaseKeeper::revoke(Lessee& job) {
  job.has_to_wake = false;
  slot_of(job).granted = 0;
}

// Whether a run waits that the policy might let compute in this one's place before this one has ended.
bool LeaseKeeper::is_contested(const Lessee& job) const {
  if (scheduler_.goes_by_runs()) return false;
  return std::ranges::any_of(jobs_, [&](const Lessee& other) {
    return other.present && other.run.waits && (!scheduler_.puts_classes_first() || other.priority() >= job.priority());
  });
}

bool LeaseKeeper::may_begin_unasked(const Lessee& idle) const {
  return std::ranges::none_of(jobs_, [&](const Lessee& other) {
    return other.present && !(scheduler_.puts_classes_first() && other.priority() < idle.priority());
  });
}

std::int64_t LeaseKeeper::look(std::int64_t now_ns) {
  board_->heartbeat_ns = now_ns;
  for (Lessee& job : jobs_) observe(job, now_ns);
  for (const Run* const begun : scheduler_.begin_steps(now_ns)) grant(*static_cast<Lessee*>(begun->owner), now_ns);
  for (Lessee& job : jobs_) {
    lease::BoardSlot& slot = slot_of(job);
    if (!job.present) {
      slot.granted = !job.lost && may_begin_unasked(job);
    } else if (job.run.waits) {
      revoke(job);
    } else if (now_ns - job.term_start_ns >= kTermNs && is_contested(job)) {
      revoke(job);  // its term ends when it is seen to wait
    }
  }
  return next_look_ns(now_ns);
}

std::int64_t LeaseKeeper::next_look_ns(std::int64_t now_ns) const {
  const bool busy = jobs_.size() > 1 && std::ranges::any_of(jobs_, &Lessee::present);
  std::int64_t next_ns = now_ns + (busy ? kBusyLookNs : kIdleLookNs);
  for (const Lessee& job : jobs_) {
    if (job.present && job.idle_ns != kNever) next_ns = std::min(next_ns, job.idle_ns + kGapNs);
    const std::int64_t end_ns = job.term_start_ns + kTermNs;
    if (job.present && job.run.computes && end_ns > now_ns && is_contested(job)) next_ns = std::min(next_ns, end_ns);
  }
  return std::min(next_ns, std::max(scheduler_.look_again_ns(), now_ns));
}

std::vector<LeaseReport> LeaseKeeper::report() const {
  std::vector<LeaseReport> reports;
  for (const Lessee& job : jobs_) {
    const lease::BoardSlot& slot = slot_of(job);
    const std::uint64_t ended = slot.runs_ended.load();
    std::vector<std::int64_t> latencies;
    for (std::size_t i = 0; i < std::min<std::uint64_t>(ended, lease::kKeptLatencies); ++i)
      latencies.push_back(std::int64_t{1000} * slot.latency_us[i].load());
    std::ranges::sort(latencies);
    reports.push_back({.options = job.job->options,
                       .process = job.process,
                       .activity = slot.activity.load(),
                       .lost = job.lost,
                       .device_ns = job.job->device_ns,
                       .processor_ns = processor_ns_of(job.process),
                       .attached_ns = job.attached_ns,
                       .memory_bytes = memory_.used_bytes(job.job->id),
                       .peak_memory_bytes = memory_.peak_bytes(job.job->id),
                       .runs = ended,
                       .failed_runs = slot.runs_failed.load(),
                       .spills = slot.spills.load(),
                       .waited_ns = slot.waited_ns.load(),
                       .p50_ns = percentile(latencies, 0.5),
                       .p99_ns = percentile(latencies, 0.99),
                       .goal_misses = slot.goal_misses.load(),
                       .prediction_error = 1e-6 * static_cast<double>(slot.error_ppm.load())});
  }
  return reports;
}

}  // namespace tessera::share
