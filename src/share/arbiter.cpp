#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/backend_table.h"
#include "base/error.h"
#include "base/threads/idle_scheduling.h"
#include "base/threads/thread_pool.h"
#include "lease/attachment.h"
#include "runtime/memory/spill_file.h"
#include "share/gated_run.h"
#include "share/simulation.h"

namespace tessera {

share::ArbiterState::ArbiterState(const ArbiterOptions& options)
    : policy(options.policy),
      clock(options.clock != nullptr ? options.clock : &Clock::steady()),
      machine(base::cpu_info()),
      spill_folder(options.spill_folder.empty() ? runtime::default_spill_folder() : options.spill_folder),
      memory(options.memory_bytes),
      scheduler(options.policy, options.memory_bytes, backends::find_device(options.device).preempts()) {}

struct Job::State {
  static constexpr std::size_t kKeptLatencies = 4096;

  State(std::shared_ptr<share::ArbiterState> given, const JobOptions& options) : arbiter(std::move(given)) {
    const std::lock_guard lock(arbiter->mutex);
    job = &arbiter->scheduler.add_job(options);
    try {
      arbiter->memory.add_job(job->id, options);
    } catch (...) {
      arbiter->scheduler.remove_job(*job);
      throw;
    }
  }
  ~State() {
    const std::lock_guard lock(arbiter->mutex);
    arbiter->memory.remove_job(job->id);
    arbiter->scheduler.remove_job(*job);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void take_over(RunOptions& options, StepGate& gate) const {
    options.gate = &gate;
    options.priority = job->options.priority;
    if (options.clock == nullptr) options.clock = arbiter->clock;
  }

  // Calls `work` with the gate of a run that is like others with this key.
  template <typename Work>
  void run(std::uint64_t key, const Work& work) {
    std::unique_lock lock(arbiter->mutex);
    share::RunHistory& history = histories[key];
    lock.unlock();
    std::int64_t waited_ns = 0, arrival_ns = 0;
    bool failed = true;
    const auto count = [&] {
      lock.lock();
      if (failed) ++failed_runs;
      else add_latency(arbiter->clock->now_ns() - arrival_ns);
      waited += waited_ns;
    };
    try {
      share::GatedRun gate(*arbiter, *job, history, predictor, spills);
      arrival_ns = gate.arrival_ns();
      work(gate);
      failed = false;
      waited_ns = gate.waited_ns();
    } catch (...) {
      count();
      throw;
    }
    count();
  }

  void add_latency(std::int64_t ns) {
    ++runs;
    goal_misses += job->options.goal_ns > 0 && ns > job->options.goal_ns;
    if (latencies.size() < kKeptLatencies) latencies.push_back(ns);
    else latencies[static_cast<std::size_t>(runs) % kKeptLatencies] = ns;
  }

  const std::shared_ptr<share::ArbiterState> arbiter;
  share::JobState* job = nullptr;
  // With the arbiter's mutex held.
  std::map<std::uint64_t, share::RunHistory> histories;
  cost::Predictor predictor;
  std::int64_t runs = 0, failed_runs = 0, waited = 0, goal_misses = 0;
  std::vector<std::int64_t> latencies;
  share::SpillCount spills;
};

namespace {

std::uint64_t key_of(const Session& session, const NamedValues& inputs) {
  std::uint64_t key = std::hash<const void*>{}(&session);
  for (const auto& [name, value] : inputs) {
    if (!value.is_tensor()) continue;
    for (const std::int64_t size : value.tensor().shape())
      key = (key ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15u + (key >> 29);
  }
  return key;
}

}  // namespace

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::~Job() = default;
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;

NamedValues Job::run(Session& session, const NamedValues& inputs, RunOptions options) {
  NamedValues outputs;
  state_->run(key_of(session, inputs), [&](StepGate& gate) {
    state_->take_over(options, gate);
    outputs = session.run(inputs, options);
  });
  return outputs;
}

std::vector<Value> Job::run(Session& session, const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                            RunOptions options) {
  std::vector<Value> values;
  state_->run(key_of(session, inputs), [&](StepGate& gate) {
    state_->take_over(options, gate);
    values = session.run(inputs, outputs, options);
  });
  return values;
}

void Job::run(const std::string& name, const std::function<void()>& work) {
  State& state = *state_;
  state.run(std::hash<std::string>{}(name), [&](StepGate& gate) {
    const StepInfo step{.op = name, .priority = state.job->options.priority, .clock = state.arbiter->clock};
    lease::ProcessRun process_run(lease::Attachment::of_process());  // where the process is a job among others
    while (!gate.may_pass(step)) gate.wait(step);
    while (!process_run.may_pass(step)) process_run.wait();
    const base::ThreadPool::CoreLease lease(base::ThreadPool::process(), process_run.class_of(step.priority),
                                            *step.clock, 1);
    work();
    process_run.succeeded();
  });
}

void Job::charge(std::int64_t bytes, const std::string& what) {
  require(bytes >= 0, ErrorKind::invalid_argument, "a job cannot be charged {} bytes for {}", bytes, what);
  state_->arbiter->memory.charge(state_->job->id, bytes, what);
}

void Job::release(std::int64_t bytes) {
  state_->arbiter->memory.release(state_->job->id, bytes);
}

JobReport Job::report() const {
  State& state = *state_;
  const std::lock_guard lock(state.arbiter->mutex);
  const JobOptions& options = state.job->options;
  JobReport report{.name = options.name,
                   .priority = options.priority,
                   .runs = state.runs,
                   .failed_runs = state.failed_runs,
                   .device_ns = state.job->device_ns,
                   .waited_ns = state.waited,
                   .goal_misses = state.goal_misses,
                   .memory_bytes = state.arbiter->memory.used_bytes(state.job->id),
                   .peak_memory_bytes = state.arbiter->memory.peak_bytes(state.job->id),
                   .spills = state.spills.spills,
                   .spilled_bytes = state.spills.written_bytes,
                   .prediction_error = state.predictor.median_error()};
  std::vector<std::int64_t> sorted = state.latencies;
  std::ranges::sort(sorted);
  report.p50_ns = share::percentile(sorted, 0.5);
  report.p99_ns = share::percentile(sorted, 0.99);
  return report;
}

std::int64_t Job::predicted_ns(const Session& session, const NamedValues& inputs) const {
  const State& state = *state_;
  const std::uint64_t key = key_of(session, inputs);
  const std::lock_guard lock(state.arbiter->mutex);
  const auto found = state.histories.find(key);
  return found != state.histories.end() ? static_cast<std::int64_t>(found->second.device_ns) : 0;
}

std::int64_t Job::ahead_ns() const {
  const State& state = *state_;
  const std::lock_guard lock(state.arbiter->mutex);
  std::int64_t ahead_ns = 0;
  for (const share::Run* const run : state.arbiter->scheduler.device().runs) {
    if (run->job != state.job && run->job->options.priority >= state.job->options.priority) ahead_ns += run->left_ns;
  }
  return ahead_ns;
}

Arbiter::Arbiter(const ArbiterOptions& options) {
  require(options.memory_bytes >= 0, ErrorKind::invalid_argument, "a device cannot have {} bytes of memory",
          options.memory_bytes);
  state_ = std::make_shared<share::ArbiterState>(options);
  if (state_->scheduler.device().preempts && options.clock == nullptr) base::let_background_idle();
}
Arbiter::~Arbiter() = default;

Job Arbiter::add_job(const JobOptions& options) {
  require(!options.name.empty(), ErrorKind::invalid_argument, "a job needs a name");
  require(options.weight > 0 && std::isfinite(options.weight), ErrorKind::invalid_argument,
          "job '{}' has the weight {}, expected a number above 0", options.name, options.weight);
  require(options.goal_ns >= 0 && options.guarantee_bytes >= 0 && options.limit_bytes >= 0 &&
              options.persistent_bytes >= 0 && options.temporary_bytes >= 0,
          ErrorKind::invalid_argument, "job '{}' has a negative goal or memory", options.name);
  require(options.limit_bytes == 0 || options.guarantee_bytes <= options.limit_bytes, ErrorKind::invalid_argument,
          "job '{}' is to be guaranteed {} bytes, which is more than its limit of {} bytes", options.name,
          options.guarantee_bytes, options.limit_bytes);
  return Job(std::make_unique<Job::State>(state_, options));
}

const std::string& Arbiter::policy() const {
  return state_->policy;
}

}  // namespace tessera
