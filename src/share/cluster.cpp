#include "share/cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <queue>
#include <set>

#include "base/error.h"
#include "base/numbers/philox.h"
#include "io/toml_table.h"

namespace tessera::share {
namespace {

constexpr std::array<std::pair<std::string_view, Placement>, 4> kPlacements{
    {{"spread", Placement::spread},
     {"pack", Placement::pack},
     {"best_fit", Placement::best_fit},
     {"interference", Placement::interference}}};

struct Job {
  double arrival_s = 0, alone_s = 0, left_s = 0, begin_s = 0, demand = 0;
  int slices = 1, device = -1;
  bool has_ended = false;
  std::uint32_t version = 0;  // of its end in the queue of events
};

struct Device {
  int free = 0;
  double load = 0;     // of its memory bandwidth: what its jobs ask for
  double since_s = 0;  // its jobs' left_s count from here
  std::vector<std::int32_t> jobs;
};

struct End {
  double time_s;
  std::int32_t job;
  std::uint32_t version;
  bool operator>(const End& other) const { return time_s != other.time_s ? time_s > other.time_s : job > other.job; }
};

// Jobs come in order of arrival, each from numbers of its own.
class Load {
 public:
  explicit Load(const ClusterOptions& options) : options_(options), random_(options.seed) {}

  Job next() {
    // Thinning of a process with the highest rate (Lewis, Shedler, 1979).
    const double highest = options_.jobs_per_hour / 3600 * (1 + options_.diurnal);
    do now_s_ += exponential() / highest;
    while (options_.diurnal > 0 && random_.next_uniform() * (1 + options_.diurnal) >
                                       1 + options_.diurnal * std::sin(now_s_ * 2 * 3.14159265358979 / 86400));
    Job job{.arrival_s = now_s_};
    const double sigma = options_.heavy_tail;
    job.alone_s = options_.mean_seconds *
                  (sigma > 0 ? std::exp(sigma * random_.next_normal() - sigma * sigma / 2) : exponential());
    job.left_s = job.alone_s;
    job.slices = static_cast<int>(random_.next_integer(1, options_.most_slices));
    job.demand = static_cast<double>(job.slices) / options_.slices * 2 * options_.intensity * random_.next_uniform();
    return job;
  }

 private:
  double exponential() { return -std::log(1 - random_.next_uniform()); }

  const ClusterOptions& options_;
  base::Philox random_;
  double now_s_ = 0;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options),
        devices_(static_cast<std::size_t>(device_count(options))),
        by_free_(static_cast<std::size_t>(options.slices) + 1) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      devices_[i].free = options.slices;
      by_free_.back().emplace(0, static_cast<int>(i));
      const std::size_t node = i / static_cast<std::size_t>(options.devices_per_node);
      node_free_.resize(node + 1);
      node_free_[node] += options.slices;
    }
    for (std::size_t node = 0; node < node_free_.size(); ++node)
      nodes_.emplace(node_free_[node], static_cast<int>(node));
  }

  // -1: there is no place.
  int place(int slices) const {
    switch (options_.placement) {
      case Placement::spread:
        for (int free = options_.slices; free >= slices; --free) {
          if (!with(free).empty()) return with(free).begin()->second;
        }
        return -1;
      case Placement::best_fit:
        for (int free = slices; free <= options_.slices; ++free) {
          if (!with(free).empty()) return with(free).begin()->second;
        }
        return -1;
      case Placement::interference:
        return least_loaded(slices);
      case Placement::pack:
        return on_fullest_node(slices);
    }
    return -1;
  }

  Device& device(int index) { return devices_[static_cast<std::size_t>(index)]; }

  // Takes `slices` (or gives them back, below 0) and adds `demand` to the load.
  void take(int index, int slices, double demand) {
    Device& changed = device(index);
    const int node = index / options_.devices_per_node;
    int& free_of_node = node_free_[static_cast<std::size_t>(node)];
    with(changed.free).erase({key(changed), index});
    nodes_.erase({free_of_node, node});
    changed.free -= slices;
    free_of_node -= slices;
    changed.load = changed.free == options_.slices ? 0 : changed.load + demand;
    with(changed.free).emplace(key(changed), index);
    nodes_.emplace(free_of_node, node);
  }

 private:
  using Ordered = std::set<std::pair<double, int>>;
  const Ordered& with(int free) const { return by_free_[static_cast<std::size_t>(free)]; }
  Ordered& with(int free) { return by_free_[static_cast<std::size_t>(free)]; }
  double key(const Device& of) const { return options_.placement == Placement::interference ? of.load : 0; }

  int least_loaded(int slices) const {
    int best = -1;
    double least = 0;
    for (int free = slices; free <= options_.slices; ++free) {
      if (with(free).empty()) continue;
      const auto& [load, index] = *with(free).begin();
      if (best < 0 || load < least) best = index, least = load;
    }
    return best;
  }

  int on_fullest_node(int slices) const {
    for (auto node = nodes_.lower_bound({slices, 0}); node != nodes_.end(); ++node) {
      int best = -1, fewest = options_.slices + 1;
      const int first = node->second * options_.devices_per_node;
      const int last = std::min(first + options_.devices_per_node, static_cast<int>(devices_.size()));
      for (int index = first; index < last; ++index) {
        const int free = devices_[static_cast<std::size_t>(index)].free;
        if (free >= slices && free < fewest) best = index, fewest = free;
      }
      if (best >= 0) return best;
    }
    return -1;
  }

  const ClusterOptions& options_;
  std::vector<Device> devices_;
  std::vector<Ordered> by_free_;  // devices by their free slices, in the order in which placement prefers them
  std::vector<int> node_free_;
  std::set<std::pair<int, int>> nodes_;  // free slices, node
};

class ClusterSimulation {
 public:
  explicit ClusterSimulation(const ClusterOptions& options) : options_(options), cluster_(options), load_(options) {}

  ClusterOutcome run() {
    jobs_.reserve(static_cast<std::size_t>(options_.jobs));
    Job coming = load_.next();
    const double first_s = coming.arrival_s;
    while (ended_ < options_.jobs) {
      const bool more = static_cast<std::int64_t>(jobs_.size()) < options_.jobs;
      if (more && (ends_.empty() || coming.arrival_s <= ends_.top().time_s)) {
        now_s_ = coming.arrival_s;
        waiting_.push_back(static_cast<std::int32_t>(jobs_.size()));
        jobs_.push_back(coming);
        if (static_cast<std::int64_t>(jobs_.size()) == options_.jobs) note_last_arrival();
        coming = load_.next();
      } else {
        const End end = ends_.top();
        ends_.pop();
        if (job(end.job).version != end.version) continue;  // the device has become faster or slower since
        now_s_ = end.time_s;
        leave(end.job);
      }
      begin_jobs();
    }
    return outcome(first_s);
  }

 private:
  Job& job(std::int32_t index) { return jobs_[static_cast<std::size_t>(index)]; }

  void begin_jobs() {
    while (!waiting_.empty()) {
      Job& first = job(waiting_.front());
      const int place = cluster_.place(first.slices);
      if (place < 0) break;
      first.device = place;
      first.begin_s = now_s_;
      waits_s_.push_back(now_s_ - first.arrival_s);
      change(place, [&](Device& device) {
        cluster_.take(place, first.slices, first.demand);
        device.jobs.push_back(waiting_.front());
      });
      waiting_.pop_front();
    }
    most_waiting_ = std::max(most_waiting_, static_cast<std::int64_t>(waiting_.size()));
  }

  // Counts the service until now, also that of jobs that are being served.
  void note_last_arrival() {
    last_arrival_s_ = now_s_;
    served_while_arriving_s_ = served_s_;
    for (const Job& each : jobs_) {
      if (each.device >= 0 && !each.has_ended) served_while_arriving_s_ += (now_s_ - each.begin_s) * each.slices;
    }
  }

  void leave(std::int32_t index) {
    Job& leaving = job(index);
    ++leaving.version;
    leaving.has_ended = true;
    ++ended_;
    served_s_ += (now_s_ - leaving.begin_s) * leaving.slices;
    alone_s_ += leaving.alone_s * leaving.slices;
    change(leaving.device, [&](Device& device) {
      std::erase(device.jobs, index);
      cluster_.take(leaving.device, -leaving.slices, -leaving.demand);
    });
  }

  // What the jobs of the device have done so far is counted at its old pace, what is left at its new one.
  template <typename Change>
  void change(int index, const Change& apply) {
    Device& device = cluster_.device(index);
    const double before = std::max(1.0, device.load), passed_s = now_s_ - device.since_s;
    for (const std::int32_t each : device.jobs) job(each).left_s -= passed_s / before;
    device.since_s = now_s_;
    apply(device);
    const double pace = std::max(1.0, device.load);
    for (const std::int32_t each : device.jobs)
      ends_.push({now_s_ + std::max(0.0, job(each).left_s) * pace, each, ++job(each).version});
  }

  ClusterOutcome outcome(double first_s) {
    ClusterOutcome result{.jobs = ended_, .most_waiting = most_waiting_};
    const double passed_s = now_s_ - first_s, arriving_s = last_arrival_s_ - first_s;
    const double all = static_cast<double>(device_count(options_)) * options_.slices;
    result.hours = passed_s / 3600;
    result.arrival_hours = arriving_s / 3600;
    std::ranges::sort(waits_s_);
    double sum = 0;
    for (const double wait : waits_s_) sum += wait;
    const auto count = static_cast<double>(waits_s_.size());
    result.mean_wait_s = sum / count;
    result.p50_wait_s = waits_s_[waits_s_.size() / 2];
    result.p99_wait_s = waits_s_[static_cast<std::size_t>(0.99 * (count - 1))];
    result.waiting_share = static_cast<double>(waits_s_.end() - std::ranges::upper_bound(waits_s_, 0.0)) / count;
    result.use = arriving_s > 0 ? served_while_arriving_s_ / (arriving_s * all) : 0;
    result.use_to_the_end = passed_s > 0 ? served_s_ / (passed_s * all) : 0;
    result.mean_slowdown = served_s_ / alone_s_;
    const double mean_slices = (1 + options_.most_slices) / 2.0;
    result.offered_load =
        options_.jobs_per_hour / 3600 * options_.mean_seconds * mean_slices * result.mean_slowdown / all;
    return result;
  }

  const ClusterOptions& options_;
  Cluster cluster_;
  Load load_;
  std::vector<Job> jobs_;
  std::deque<std::int32_t> waiting_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<double> waits_s_;
  double now_s_ = 0, served_s_ = 0, alone_s_ = 0;
  double last_arrival_s_ = 0, served_while_arriving_s_ = 0;
  std::int64_t ended_ = 0, most_waiting_ = 0;
};

void check(const ClusterOptions& options) {
  const auto within = [](const char* what, double value, double least, double most) {
    require(value >= least && value <= most, ErrorKind::invalid_argument,
            "cluster.{} is {}, expected a number from {} to {}", what, value, least, most);
  };
  within("nodes", options.nodes, 1, 1e6);
  within("devices_per_node", options.devices_per_node, 1, 64);
  within("devices", options.devices, 0, 64e6);
  within("slices", options.slices, 1, 64);
  within("most_slices", options.most_slices, 1, options.slices);
  within("jobs", static_cast<double>(options.jobs), 1, 1e8);
  within("jobs_per_hour", options.jobs_per_hour, 1e-6, 1e12);
  within("diurnal", options.diurnal, 0, 1);
  within("mean_seconds", options.mean_seconds, 1e-6, 1e9);
  within("heavy_tail", options.heavy_tail, 0, 10);
  within("intensity", options.intensity, 0, 100);
}

}  // namespace

int device_count(const ClusterOptions& options) {
  return options.devices > 0 ? options.devices : options.nodes * options.devices_per_node;
}

ClusterOutcome simulate_cluster(const ClusterOptions& options) {
  check(options);
  return ClusterSimulation(options).run();
}

Placement parse_placement(std::string_view name) {
  std::string all;
  for (const auto& [known, placement] : kPlacements) {
    if (known == name) return placement;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  fail(ErrorKind::invalid_argument, "there is no placement '{}'; the placements are {}", name, all);
}

ClusterOptions parse_cluster(std::string_view text, const std::string& where) {
  io::TomlTable root = io::TomlTable::parse(text, where);
  root.has("job");  // read by parse_trace
  io::TomlTable table = root.table("cluster");
  ClusterOptions options;
  const auto small = [&](std::string_view key, int otherwise) {
    return static_cast<int>(std::clamp<std::int64_t>(table.whole(key, otherwise), -1, 1 << 30));
  };
  options.nodes = small("nodes", options.nodes);
  options.devices_per_node = small("devices_per_node", options.devices_per_node);
  options.slices = small("slices", options.slices);
  options.most_slices = small("most_slices", options.most_slices);
  options.placement = parse_placement(table.text("placement", "best_fit"));
  options.seed = static_cast<std::uint64_t>(root.whole("seed", 0));
  options.jobs = table.whole("jobs", options.jobs);
  options.jobs_per_hour = table.number("jobs_per_hour", options.jobs_per_hour);
  options.diurnal = table.number("diurnal", options.diurnal);
  options.mean_seconds = table.number("mean_seconds", options.mean_seconds);
  options.heavy_tail = table.number("heavy_tail", options.heavy_tail);
  options.intensity = table.number("intensity", options.intensity);
  root.check_all_read();
  check(options);
  return options;
}

}  // namespace tessera::share
