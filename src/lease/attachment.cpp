#include "lease/attachment.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/worker_thread.h"
#include "lease/connection.h"

namespace tessera::lease {
namespace {

constexpr std::int64_t kLookNs = 20'000'000;
// The shortest time between two notifications that a run begins, if the daemon asked for these.
constexpr std::int64_t kKickNs = 2'000'000;
// A daemon that has not looked at the waiting jobs for so long is taken to be dead.
constexpr std::int64_t kDeadNs = 2'000'000'000;

std::atomic<Attachment*> process_attachment{nullptr};

std::int64_t now() {
  return Clock::steady().now_ns();
}

// The processor time of the calling thread so far. It does not include the time that the thread waits for its turn, or
// in which the system runs another thread in its place.
std::int64_t thread_processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

Attachment::Attachment(const JobDescription& job)
    : job_(job),
      quota_(job.hard_cores > 0 ? std::make_unique<CoreQuota>(job.hard_cores) : nullptr),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  require(stop_ >= 0, ErrorKind::io, "cannot attach to a sharing daemon: the system gives no more descriptors");
  try_attach();
  keeper_ = base::start_worker_thread([this] { keep_attached(); });
}

Attachment::~Attachment() {
  const std::uint64_t one = 1;
  if (write(stop_, &one, sizeof(one)) == sizeof(one)) pthread_join(keeper_, nullptr);
  close(stop_);
}

Attachment* Attachment::of_process() {
  static const bool made = [] {
    const std::optional<JobDescription> job = job_by_environment();
    if (!job) return false;
    // never destroyed, because runs may end while static objects die
    Attachment* const attachment = new Attachment(*job);
    process_attachment = attachment;
    base::outside_demand = attachment;
    // After a fork, the child has the job's memory but none of its threads.
    pthread_atfork(nullptr, nullptr, [] {
      process_attachment = nullptr;
      base::outside_demand = nullptr;
    });
    return true;
  }();
  return made ? process_attachment.load(std::memory_order_relaxed) : nullptr;
}

std::int64_t Attachment::begin_run() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now_ns = now();
  Connection* const connection = connection_.load();
  arrivals_.push_back(now_ns);
  if (connection == nullptr) return now_ns;
  if (arrivals_.size() == 1) connection->slot->arrival_ns = now_ns;
  ++connection->slot->runs_begun;
  settle();
  if (activity_ != Activity::waits) kick(*connection, job_.goal_ns > 0);
  return now_ns;
}

void Attachment::end_run(std::int64_t arrival_ns, bool failed) {
  const std::lock_guard lock(mutex_);
  const bool was_oldest = arrivals_.front() == arrival_ns;
  arrivals_.erase(std::ranges::find(arrivals_, arrival_ns));
  Connection* const connection = connection_.load();
  if (connection == nullptr) return;
  BoardSlot& slot = *connection->slot;
  const std::int64_t took_ns = now() - arrival_ns;
  const std::uint64_t number = slot.runs_ended.load();
  slot.latency_us[number % kKeptLatencies] =
      static_cast<std::uint32_t>(std::min<std::int64_t>(took_ns / 1000, UINT32_MAX));
  if (failed) ++slot.runs_failed;
  if (job_.goal_ns > 0 && took_ns > job_.goal_ns) ++slot.goal_misses;
  slot.runs_ended = number + 1;
  // If runs overlap there is always one in progress, so the arrival of the oldest one tells the daemon that a run
  // ended.
  if (was_oldest && !arrivals_.empty()) slot.arrival_ns = arrivals_.front();
  settle();
  if (job_.goal_ns > 0 || (was_oldest && (*connection->board)->waiting.load() != 0)) kick(*connection, true);
}

bool Attachment::is_allowed() {
  const Connection* const connection = connection_.load(std::memory_order_acquire);
  if (connection != nullptr &&
      (connection->slot->granted.load() == 0 || (*connection->board)->active_above(job_.priority) != 0))
    return false;
  return !exceeds_quota();
}

bool Attachment::may_compute() {
  Connection* const connection = connection_.load(std::memory_order_acquire);
  if (connection != nullptr) connection->slot->progress.fetch_add(1, std::memory_order_relaxed);
  const bool allowed = is_allowed();
  if (connection != nullptr &&
      allowed != (connection->slot->activity.load(std::memory_order_relaxed) == Activity::computes)) {
    const std::lock_guard lock(mutex_);
    settle();
  }
  return allowed;
}

void Attachment::wait() {
  Connection* const connection = connection_.load(std::memory_order_acquire);
  const std::int64_t start_ns = now();
  if (connection == nullptr || (connection->slot->granted.load() != 0 && exceeds_quota())) {
    if (quota_ != nullptr) Clock::steady().sleep_until(start_ns + std::min(kLookNs, quota_->pause_ns()));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    settle();
  }
  sleep_until_woken(*connection->slot, kLookNs, [&] { return connection_.load() != connection || is_allowed(); });
  connection->slot->waited_ns += now() - start_ns;
  if (now() - (*connection->board)->heartbeat_ns.load() > kDeadNs) detach(connection);
  const std::lock_guard lock(mutex_);
  settle();
}

void Attachment::settle() {
  Connection* const connection = connection_.load();
  if (connection == nullptr) return;
  Activity next = Activity::computes;
  if (arrivals_.empty()) next = Activity::idle;
  else if (connection->slot->granted.load() == 0) next = Activity::waits;
  else if ((*connection->board)->active_above(job_.priority) != 0) next = Activity::held;
  if (next != activity_ || next != connection->slot->activity.load(std::memory_order_relaxed)) state(*connection, next);
}

void Attachment::state(Connection& connection, Activity activity) {
  Board& board = **connection.board;
  const bool computes = activity == Activity::computes || activity == Activity::held;
  activity_ = activity;
  connection.slot->activity = activity;
  if (activity == Activity::waits) board.waiting.fetch_or(Board::bit(connection.number));
  else board.waiting.fetch_and(~Board::bit(connection.number));
  if (computes) board.set_active(connection.number, job_.priority);
  else board.clear_active(connection.number, job_.priority);
  if (activity == Activity::waits) kick(connection, true);
}

// Wakes the daemon. Never blocks.
void Attachment::kick(Connection& connection, bool always) {
  if ((*connection.board)->contended.load(std::memory_order_relaxed) == 0 && activity_ != Activity::waits) return;
  const std::int64_t now_ns = now();
  if (!always && now_ns - kicked_ns_ < kKickNs) return;
  kicked_ns_ = now_ns;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(connection.kick, &one, sizeof(one));
}

void Attachment::learn_step(std::uint64_t key, std::int64_t measured_ns) {
  Connection* const connection = connection_.load();
  const std::lock_guard lock(predictor_mutex_);
  const double measured = static_cast<double>(measured_ns);
  if (predictor_.knows(key)) predictor_.judge(predictor_.predict(key, 1), measured);
  predictor_.learn(key, 1, measured);
  if (connection != nullptr)
    connection->slot->error_ppm = static_cast<std::int64_t>(1e6 * std::min(predictor_.median_error(), 1e6));
}

ProcessRun::ProcessRun(Attachment* attachment) : attachment_(attachment) {
  if (attachment_ == nullptr) return;
  arrival_ns_ = attachment_->begin_run();
  // Reading the thread's clock twice in each step would cost short runs more than a hundredth of their time.
  constexpr std::uint64_t kMeasuredEvery = 16;
  constexpr std::int64_t kMeasuredEveryNs = 20'000'000;
  thread_local std::uint64_t runs = 0;
  thread_local std::int64_t measured_at_ns = 0;
  measures_ = runs++ % kMeasuredEvery == 0 || arrival_ns_ - measured_at_ns >= kMeasuredEveryNs;
  if (measures_) measured_at_ns = arrival_ns_;
}

ProcessRun::~ProcessRun() {
  if (attachment_ != nullptr) attachment_->end_run(arrival_ns_, failed_);
}

bool ProcessRun::may_pass(const StepInfo& step) {
  if (attachment_ == nullptr) return true;
  if (measures_) {
    const std::int64_t used_ns = thread_processor_ns();
    if (step_start_ns_ != 0) attachment_->learn_step(key_, used_ns - step_start_ns_);
    key_ = cost::step_key(step.op, step.operations, step.bytes);
    step_start_ns_ = used_ns;
  }
  if (attachment_->may_compute()) return true;
  step_start_ns_ = 0;
  return false;
}

Priority ProcessRun::class_of(Priority asked) const {
  return attachment_ != nullptr && asked == Priority::standard ? attachment_->job().priority : asked;
}

void ProcessRun::wait() {
  attachment_->wait();
}

}  // namespace tessera::lease
