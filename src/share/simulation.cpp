#include "share/simulation.h"

#include <cmath>
#include <queue>

#include "base/error.h"
#include "share/scheduler.h"

namespace tessera::share {
namespace {

// The length that a policy is told for a step of this length.
std::int64_t claimed(const SimulatedJob& job, std::int64_t ns) {
  return static_cast<std::int64_t>(static_cast<double>(ns) * job.claim);
}

struct LiveRun {
  Run run;
  int job = 0;
  std::size_t step = 0;
  double left_ns = 0;  // of the step that computes, as if it were alone
  std::int64_t begin_ns = 0;
};

struct LiveJob {
  JobState* state = nullptr;  // null before it has come and after it has left
  std::int64_t steps_ns = 0, to_come = 0;
  Demand mean{0, 0, 0};
  std::vector<std::int64_t> latencies;
  double queueing_ns = 0;
  double own_ns = 0;  // a run of it computed

  // When the latest run came to a step, and how long the job and others had computed by then.
  struct Visit {
    std::int64_t at_ns = 0;
    double own_ns = 0, others_ns = 0;
    bool is_first = true;
  };
  std::vector<Visit> visits;  // by step, where steps can be cold
};

class Simulation {
 public:
  Simulation(const Trace& trace, const SharedDevice& device, std::string_view policy)
      : trace_(trace), scheduler_(policy, device.memory_bytes, device.preempts), jobs_(trace.jobs.size()) {
    outcome_.policy = policy;
    for (std::size_t i = 0; i < jobs_.size(); ++i) add_job(static_cast<int>(i));
  }

  SimulationOutcome run() {
    while (true) {
      const std::int64_t completion_ns = next_completion_ns();
      const std::int64_t arrival_ns = arrivals_.empty() ? kNever : arrivals_.top().first;
      const std::int64_t next_ns = std::min({completion_ns, arrival_ns, scheduler_.look_again_ns()});
      if (next_ns == kNever) break;
      progress(next_ns);
      while (!arrivals_.empty() && arrivals_.top().first <= now_ns_) arrive();
      end_steps();
      begin_steps();
    }
    finish();
    return std::move(outcome_);
  }

 private:
  using Arrival = std::pair<std::int64_t, int>;  // time, job

  void add_job(int index) {
    const SimulatedJob& job = trace_.jobs[static_cast<std::size_t>(index)];
    require(!job.steps.empty(), ErrorKind::invalid_argument, "job '{}' has no steps", job.options.name);
    LiveJob& live = jobs_[static_cast<std::size_t>(index)];
    if (std::ranges::any_of(job.steps, [](const SimulatedStep& step) { return step.cold_ns > 0; }))
      live.visits.resize(job.steps.size());
    for (const SimulatedStep& step : job.steps) {
      const double ns = static_cast<double>(step.ns);
      live.steps_ns += step.ns;
      live.mean = live.mean + Demand{step.demand.compute * ns, step.demand.bandwidth * ns, step.demand.link * ns};
    }
    const double all_ns = std::max(1.0, static_cast<double>(live.steps_ns));
    live.mean = {live.mean.compute / all_ns, live.mean.bandwidth / all_ns, live.mean.link / all_ns};
    if (job.arrivals.kind == Arrivals::Kind::closed) {
      live.to_come = job.arrivals.requests;
      if (live.to_come > 0) arrivals_.emplace(job.arrivals.start_ns, index);
    } else {
      const std::vector<std::int64_t> times =
          arrival_times(job.arrivals, trace_.seed, static_cast<std::uint64_t>(index));
      live.to_come = static_cast<std::int64_t>(times.size());
      for (const std::int64_t time_ns : times) arrivals_.emplace(time_ns, index);
    }
    outcome_.jobs.push_back({.name = job.options.name,
                             .priority = job.options.priority,
                             .first_arrival_ns = arrivals_.empty() ? 0 : kNever,
                             .alone_ns = live.to_come * live.steps_ns});
  }

  double slowdown() const {
    Demand all{0, 0, 0};
    for (const LiveRun& live : runs_) {
      if (live.run.computes && !is_preempted(live))
        all = all + trace_.jobs[static_cast<std::size_t>(live.job)].steps[live.step].demand;
    }
    return all.slowdown();
  }

  bool is_preempted(const LiveRun& live) const {
    return scheduler_.device().preempts && std::ranges::any_of(runs_, [&](const LiveRun& other) {
             return other.run.computes && other.run.job->options.priority > live.run.job->options.priority;
           });
  }

  std::int64_t next_completion_ns() const {
    const double factor = slowdown();
    std::int64_t next_ns = kNever;
    for (const LiveRun& live : runs_) {
      if (live.run.computes && !is_preempted(live))
        next_ns = std::min(next_ns, now_ns_ + static_cast<std::int64_t>(std::ceil(live.left_ns * factor - 1e-6)));
    }
    return next_ns;
  }

  void progress(std::int64_t to_ns) {
    const double done_ns = static_cast<double>(to_ns - now_ns_) / slowdown();
    for (LiveRun& live : runs_) {
      if (!live.run.computes || is_preempted(live)) continue;
      live.left_ns -= done_ns;
      jobs_[static_cast<std::size_t>(live.job)].own_ns += done_ns;
      all_ns_ += done_ns;
    }
    now_ns_ = to_ns;
  }

  void arrive() {
    const int index = arrivals_.top().second;
    arrivals_.pop();
    LiveJob& live = jobs_[static_cast<std::size_t>(index)];
    const SimulatedJob& job = trace_.jobs[static_cast<std::size_t>(index)];
    JobOutcome& outcome = outcome_.jobs[static_cast<std::size_t>(index)];
    outcome.first_arrival_ns = std::min(outcome.first_arrival_ns, now_ns_);
    first_arrival_ns_ = std::min(first_arrival_ns_, now_ns_);
    if (live.state == nullptr) live.state = &scheduler_.add_job(job.options);
    LiveRun& run = runs_.emplace_back();
    run.job = index;
    run.run.arrival_ns = now_ns_;
    run.run.left_ns = claimed(job, live.steps_ns);
    run.run.mean = live.mean;
    scheduler_.arrive(run.run, *live.state, now_ns_);
    ask(run);
  }

  void ask(LiveRun& live) {
    const SimulatedJob& job = trace_.jobs[static_cast<std::size_t>(live.job)];
    const SimulatedStep& step = job.steps[live.step];
    live.run.step_ns = claimed(job, step.ns);
    live.run.demand = step.demand;
    scheduler_.ask(live.run, now_ns_);
  }

  // The length of the step that begins now.
  std::int64_t length_ns(const LiveRun& live) {
    LiveJob& job = jobs_[static_cast<std::size_t>(live.job)];
    const SimulatedStep& step = trace_.jobs[static_cast<std::size_t>(live.job)].steps[live.step];
    if (step.cold_ns == 0) return step.ns;
    LiveJob::Visit& last = job.visits[live.step];
    const LiveJob::Visit now{now_ns_, job.own_ns, all_ns_ - job.own_ns, false};
    const double away_ns = static_cast<double>(now.at_ns - last.at_ns) - (now.own_ns - last.own_ns);
    const bool is_cold = last.is_first || now.others_ns - last.others_ns >= static_cast<double>(kSweptNs) ||
                         away_ns >= static_cast<double>(kRestedNs);
    last = now;
    return is_cold ? step.cold_ns : step.ns;
  }

  void end_steps() {
    for (auto live = runs_.begin(); live != runs_.end();) {
      const auto next = std::next(live);
      if (live->run.computes && live->left_ns < 0.5) end_step(live);
      live = next;
    }
  }

  void end_step(std::list<LiveRun>::iterator live) {
    const SimulatedJob& job = trace_.jobs[static_cast<std::size_t>(live->job)];
    scheduler_.end_step(live->run, now_ns_);
    record(*live);
    live->run.left_ns -= claimed(job, job.steps[live->step].ns);
    if (++live->step < job.steps.size()) return ask(*live);
    end_run(live);
  }

  void end_run(std::list<LiveRun>::iterator live) {
    const auto index = static_cast<std::size_t>(live->job);
    const SimulatedJob& job = trace_.jobs[index];
    LiveJob& state = jobs_[index];
    JobOutcome& outcome = outcome_.jobs[index];
    scheduler_.end_run(live->run, now_ns_);
    const std::int64_t latency_ns = now_ns_ - live->run.arrival_ns;
    state.latencies.push_back(latency_ns);
    outcome.goal_misses += live->run.has_goal() && latency_ns > job.options.goal_ns;
    outcome.end_ns = now_ns_;
    runs_.erase(live);
    ++outcome.runs;
    if (--state.to_come > 0) {
      if (job.arrivals.kind == Arrivals::Kind::closed)
        arrivals_.emplace(now_ns_ + job.arrivals.wait_ns, static_cast<int>(index));
      if (job.arrivals.kind != Arrivals::Kind::closed || job.arrivals.wait_ns > 0) return;
      while (!arrivals_.empty() && arrivals_.top().first <= now_ns_) arrive();
      return;
    }
    if (!first_ended_) measure_fairness();
    outcome.device_ns = state.state->device_ns;
    scheduler_.remove_job(*state.state);
    state.state = nullptr;
  }

  void measure_fairness() {
    first_ended_ = true;
    double sum = 0, squares = 0;
    int count = 0;
    for (const LiveJob& job : jobs_) {
      if (job.state == nullptr) continue;
      const double time = static_cast<double>(job.state->device_ns) / job.state->options.weight;
      sum += time, squares += time * time;
      ++count;
    }
    if (squares > 0) outcome_.fairness = sum * sum / (count * squares);
  }

  void begin_steps() {
    for (Run* const begun : scheduler_.begin_steps(now_ns_)) {
      for (LiveRun& live : runs_) {
        if (&live.run != begun) continue;
        if (live.step == 0) {
          jobs_[static_cast<std::size_t>(live.job)].queueing_ns += static_cast<double>(now_ns_ - live.run.arrival_ns);
          measure_memory();
        }
        live.begin_ns = now_ns_;
        live.left_ns = static_cast<double>(length_ns(live));
      }
    }
  }

  // Jobs of which a run has ever begun hold their persistent memory, runs that have begun their temporary one.
  void measure_memory() {
    std::int64_t bytes = 0;
    for (const LiveJob& job : jobs_) {
      const bool holds = job.state != nullptr && (!job.latencies.empty() || std::ranges::any_of(runs_, [&](auto& live) {
                           return live.run.job == job.state && live.run.started;
                         }));
      if (holds) bytes += job.state->options.persistent_bytes;
    }
    for (const LiveRun& live : runs_) {
      if (live.run.started) bytes += live.run.job->options.temporary_bytes;
    }
    outcome_.peak_memory_bytes = std::max(outcome_.peak_memory_bytes, bytes);
  }

  void record(const LiveRun& live) {
    std::vector<Segment>& timeline = outcome_.timeline;
    for (auto last = timeline.rbegin(); last != timeline.rend() && last - timeline.rbegin() < 4; ++last) {
      if (last->job == live.job && last->end_ns == live.begin_ns) {
        last->end_ns = now_ns_;
        return;
      }
    }
    if (timeline.size() < kMostSegments) timeline.push_back({live.job, live.begin_ns, now_ns_});
  }

  void finish() {
    std::int64_t end_ns = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      JobOutcome& outcome = outcome_.jobs[i];
      outcome.unserved = jobs_[i].to_come;
      if (jobs_[i].state != nullptr) outcome.device_ns = jobs_[i].state->device_ns;
      std::vector<std::int64_t>& latencies = jobs_[i].latencies;
      std::ranges::sort(latencies);
      outcome.p50_ns = percentile(latencies, 0.5);
      outcome.p99_ns = percentile(latencies, 0.99);
      outcome.most_ns = latencies.empty() ? 0 : latencies.back();
      if (outcome.runs > 0) outcome.mean_queueing_ns = jobs_[i].queueing_ns / static_cast<double>(outcome.runs);
      end_ns = std::max(end_ns, outcome.end_ns);
    }
    outcome_.makespan_ns = std::max<std::int64_t>(0, end_ns - (first_arrival_ns_ == kNever ? 0 : first_arrival_ns_));
    outcome_.busy_ns = scheduler_.busy_ns();
  }

  const Trace& trace_;
  Scheduler scheduler_;
  std::vector<LiveJob> jobs_;
  std::list<LiveRun> runs_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::int64_t now_ns_ = 0, first_arrival_ns_ = kNever;
  double all_ns_ = 0;  // of all jobs' own_ns
  bool first_ended_ = false;
  SimulationOutcome outcome_;
};

}  // namespace

SimulationOutcome simulate(const Trace& trace, const SharedDevice& device, std::string_view policy) {
  return Simulation(trace, device, policy).run();
}

}  // namespace tessera::share
