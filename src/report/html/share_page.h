// Compares how policies share a device, as a page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::report {

struct SharePage {
  struct Job {
    std::string name, job_class;
    std::int64_t runs = 0, unserved = 0, goal_misses = 0;
    double completion_ms = 0, queueing_ms = 0, p50_ms = 0, p99_ms = 0, device_ms = 0;
  };
  // Job number `job` of Policy::jobs had the device from `begin` to `end`.
  struct Segment {
    int job = 0;
    double begin_ms = 0, end_ms = 0;
  };
  struct Policy {
    std::string name, summary;
    std::vector<Job> jobs;
    std::vector<Segment> timeline;
    double makespan_ms = 0, use = 0, fairness = 0;
    std::int64_t peak_memory_bytes = 0;
  };

  std::string title, device;
  std::vector<Policy> policies;
};

// Draws the first kTimelineSegments of each policy's timeline, all on one time scale.
std::string share_page(const SharePage& page);
inline constexpr std::size_t kTimelineSegments = 1500;

}  // namespace tessera::report
