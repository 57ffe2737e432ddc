// A record of the device's last seconds: which model's batch ran when, beside which others.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::serve {

// Runs of one model that followed each other so closely that they are shown as one.
struct TimelineBar {
  std::int64_t start_ns = 0, end_ns = 0;  // of the steady clock
  std::int64_t busy_ns = 0;               // of it, without the gaps between the runs
  std::int64_t runs = 0, rows = 0;
};

// One lane of a model: runs of a model that overlap stand in different lanes.
struct TimelineLane {
  std::string model;
  int lane = 0;
  std::vector<TimelineBar> bars;  // by start
};

// Thread-safe. Holds a bounded number of runs: the latest.
class RunTimeline {
 public:
  // The number of a model of that name, which stays.
  std::size_t number_of(const std::string& model);
  // The lane of a run that begins: the lowest of the model that is free.
  int begin(std::size_t model);
  void end(std::size_t model, int lane, std::int64_t start_ns, std::int64_t end_ns, std::int64_t rows);
  // The runs that ended after `since_ns`, by model and lane. Gaps of less than `resolution_ns` are closed, so that the
  // answer has at most one bar for each such piece of time.
  std::vector<TimelineLane> since(std::int64_t since_ns, std::int64_t resolution_ns) const;

 private:
  struct Run {
    std::size_t model = 0;
    int lane = 0;
    std::int64_t start_ns = 0, end_ns = 0, rows = 0;
  };
  struct Model {
    std::string name;
    std::vector<bool> used;  // lanes
  };

  static constexpr std::size_t kKept = 1 << 15;
  mutable std::mutex mutex_;
  // All below is guarded by the mutex.
  std::vector<Model> models_;
  std::vector<Run> runs_;  // a ring
  std::size_t next_ = 0;
};

// A run in the timeline, from the construction to the end of this.
class TimelineRun {
 public:
  TimelineRun(RunTimeline& timeline, std::size_t model, std::int64_t rows);
  ~TimelineRun();
  TimelineRun(const TimelineRun&) = delete;
  TimelineRun& operator=(const TimelineRun&) = delete;

 private:
  RunTimeline& timeline_;
  const std::size_t model_;
  const std::int64_t rows_, start_ns_;
  const int lane_;
};

}  // namespace tessera::serve
