// The policy `iteration`: a whole run (an iteration of a training) is the unit. Jobs are admitted to lanes; runs of one
// lane take turns and share the lane's temporary memory, runs of different lanes compute at once (Yu, Chowdhury,
// "Salus: Fine-grained GPU sharing primitives for deep learning applications", MLSys 2020, sections 3.2 and 3.3).
//
// Lanes are safe while (sum of persistent memory of all admitted jobs) + (sum over lanes of the largest temporary
// memory of its jobs) is at most the device's memory. A job gets a lane of its own if that fits, else a lane that is
// large enough, else a lane that can grow; else it waits, in order of arrival.
#include <list>
#include <vector>

#include "share/policy.h"

namespace tessera::share {
namespace {

class Iteration final : public Policy {
 public:
  bool goes_by_runs() const override { return true; }
  Run* next(const DeviceState& device) override {
    for (Run* const run : device.runs) {
      Lane* const lane = lane_of(*run->job, device);
      if (lane == nullptr) continue;
      if (lane->in_progress == 0 && is_first_in(*lane, *run, device)) lane->in_progress = run->number;
      if (lane->in_progress == run->number && run->waits) return run;
    }
    return nullptr;
  }

  void run_ended(const DeviceState&, const Run& run) override {
    for (Lane& lane : lanes_) {
      if (lane.in_progress == run.number) lane.in_progress = 0;
    }
  }

  void job_left(const JobState& job) override {
    for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
      const auto member = std::ranges::find(lane->jobs, &job);
      if (member == lane->jobs.end()) continue;
      lane->jobs.erase(member);
      if (lane->jobs.empty()) lanes_.erase(lane);
      return;
    }
  }

 private:
  struct Lane {
    std::vector<const JobState*> jobs;
    std::int64_t in_progress = 0;  // number of the run that has the lane; 0: none

    std::int64_t temporary_bytes() const {
      std::int64_t most = 0;
      for (const JobState* job : jobs) most = std::max(most, job->options.temporary_bytes);
      return most;
    }
  };

  // By class, then in order of arrival.
  bool is_first_in(const Lane& lane, const Run& run, const DeviceState& device) const {
    return std::ranges::none_of(device.runs, [&](const Run* other) {
      return std::ranges::find(lane.jobs, other->job) != lane.jobs.end() &&
             other->job->options.priority > run.job->options.priority;
    });
  }

  std::int64_t used_bytes() const {
    std::int64_t used = 0;
    for (const Lane& lane : lanes_) {
      used += lane.temporary_bytes();
      for (const JobState* job : lane.jobs) used += job->options.persistent_bytes;
    }
    return used;
  }

  // The job's lane, to which it is admitted now if there is room; null: it waits.
  Lane* lane_of(const JobState& job, const DeviceState& device) {
    for (Lane& lane : lanes_) {
      if (std::ranges::find(lane.jobs, &job) != lane.jobs.end()) return &lane;
    }
    const std::int64_t capacity = device.memory_bytes > 0 ? device.memory_bytes : kNever;
    const std::int64_t persistent = job.options.persistent_bytes, temporary = job.options.temporary_bytes;
    const std::int64_t used = used_bytes() + persistent;
    if (used > capacity) return nullptr;
    if (temporary <= capacity - used) {
      lanes_.push_back({{&job}});
      return &lanes_.back();
    }
    Lane* best = nullptr;
    // The smallest lane that is large enough wastes least; one that has to grow grows least where it is largest.
    for (Lane& lane : lanes_) {
      if (temporary <= lane.temporary_bytes() && (best == nullptr || lane.temporary_bytes() < best->temporary_bytes()))
        best = &lane;
    }
    for (Lane& lane : lanes_) {
      if (best == nullptr || (best->temporary_bytes() < temporary && lane.temporary_bytes() > best->temporary_bytes()))
        best = &lane;
    }
    if (best == nullptr) return nullptr;
    if (temporary > best->temporary_bytes() && temporary - best->temporary_bytes() > capacity - used) return nullptr;
    best->jobs.push_back(&job);
    return best;
  }

  std::list<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Policy> make_iteration() {
  return std::make_unique<Iteration>();
}

}  // namespace tessera::share
