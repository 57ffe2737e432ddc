#include "share/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"

namespace tessera::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
using share::Arrivals;

constexpr int kBinsForTwo = 16;
constexpr const char* kLoads =
    "closed COUNT, uniform COUNT RATE, poisson COUNT RATE [SEED], bursts COUNT RATE SIZE [SEED], replay FILE";

std::vector<std::int64_t> moments_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::int64_t> due_ns;
  double ms = 0;
  while (file >> ms) due_ns.push_back(static_cast<std::int64_t>(1e6 * ms));
  require(!due_ns.empty() && file.eof(), ErrorKind::invalid_argument, "'{}' does not hold moments in ms, one a line",
          path);
  require(std::ranges::is_sorted(due_ns), ErrorKind::invalid_argument, "the moments of '{}' do not ascend", path);
  return due_ns;
}

double number(const std::string& word) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = std::stod(word, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  require(end == word.size() && !word.empty() && value > 0 && std::isfinite(value), ErrorKind::invalid_argument,
          "'{}' is no number above 0; the loads are {}", word, kLoads);
  return value;
}

struct Sent {
  std::int64_t number = 0, outcome = 0;
  double latency_us = 0, lateness_us = 0;
};

// The state that the clients share.
class Progress {
 public:
  Progress(const Load& load, double most_seconds) : load_(load) {
    if (most_seconds < 1e8)
      end_ = begin_ + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(most_seconds));
  }

  // One request of the load after the other, until none is left or a client has failed.
  void send_all(const Request& request) {
    using Microseconds = std::chrono::duration<double, std::micro>;
    std::vector<Sent> sent;
    while (true) {
      const std::int64_t number = next_.fetch_add(1);
      if (number >= load_.count) break;
      SteadyClock::time_point due = SteadyClock::now();
      if (!load_.is_closed) {
        due = begin_ + std::chrono::nanoseconds(load_.due_ns[static_cast<std::size_t>(number)]);
        std::this_thread::sleep_until(std::min(due, end_));
      }
      const SteadyClock::time_point now = SteadyClock::now();
      if (due >= end_ || now >= end_) break;
      const std::int64_t outcome = request();
      sent.push_back(
          {number, outcome, Microseconds(SteadyClock::now() - due).count(), Microseconds(now - due).count()});
    }
    const std::lock_guard lock(mutex_);
    sent_.insert(sent_.end(), sent.begin(), sent.end());
  }

  void fail(std::exception_ptr failure) {
    next_ = load_.count;
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }

  // After all clients have ended.
  LoadResult result(std::int64_t good) {
    if (failure_) std::rethrow_exception(failure_);
    LoadResult result{.seconds = std::chrono::duration<double>(SteadyClock::now() - begin_).count()};
    std::ranges::sort(sent_, {}, &Sent::number);
    for (const Sent& each : sent_) {
      ++result.outcomes[each.outcome];
      if (!load_.is_closed) result.lateness_us.push_back(each.lateness_us);
      if (each.outcome == good) result.latencies_us.push_back(each.latency_us);
    }
    return result;
  }

 private:
  const Load& load_;
  const SteadyClock::time_point begin_ = SteadyClock::now();
  SteadyClock::time_point end_ = SteadyClock::time_point::max();
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::vector<Sent> sent_;
  std::exception_ptr failure_;
};

}  // namespace

Load parse_load(const std::vector<std::string>& words) {
  const std::string kind = words.empty() ? "" : words[0];
  const auto has = [&](std::size_t least, std::size_t most) {
    return words.size() > least && words.size() <= most + 1;
  };
  if (kind == "replay" && has(1, 1)) {
    Load load{.due_ns = moments_of(words[1])};
    load.count = static_cast<std::int64_t>(load.due_ns.size());
    return load;
  }
  const bool known = (kind == "closed" && has(1, 1)) || (kind == "uniform" && has(2, 2)) ||
                     (kind == "poisson" && has(2, 3)) || (kind == "bursts" && has(3, 4));
  std::string given;
  for (const std::string& word : words) given += (given.empty() ? "" : " ") + word;
  require(known, ErrorKind::invalid_argument, "'{}' is no load; there are {}", given, kLoads);
  Load load{.is_closed = kind == "closed", .count = static_cast<std::int64_t>(number(words[1]))};
  if (load.is_closed) return load;
  Arrivals arrivals{.kind = Arrivals::Kind::poisson, .requests = load.count, .rate = number(words[2])};
  if (kind == "uniform") {
    for (std::int64_t i = 0; i < load.count; ++i)
      load.due_ns.push_back(static_cast<std::int64_t>(1e9 * static_cast<double>(i) / arrivals.rate));
    return load;
  }
  if (kind == "bursts") {
    arrivals.kind = Arrivals::Kind::bursts;
    arrivals.burst = static_cast<std::int64_t>(number(words[3]));
  }
  const std::size_t seed_at = kind == "bursts" ? 4 : 3;
  const auto seed = words.size() > seed_at ? static_cast<std::uint64_t>(number(words[seed_at])) : 1;
  load.due_ns = share::arrival_times(arrivals, seed, 0);
  return load;
}

LoadResult run_load(const Load& load, int clients, const std::function<Request()>& make_client, std::int64_t good,
                    double most_seconds) {
  std::vector<Request> requests;
  for (int i = 0; i < clients; ++i) requests.push_back(make_client());
  Progress progress(load, most_seconds);
  const auto send_all = [&](const Request& request) {
    try {
      progress.send_all(request);
    } catch (...) {
      progress.fail(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < clients; ++i) threads.emplace_back(send_all, std::cref(requests[static_cast<std::size_t>(i)]));
  send_all(requests[0]);
  for (std::thread& thread : threads) thread.join();
  return progress.result(good);
}

nlohmann::json summary(const std::vector<double>& values_us) {
  std::vector<double> sorted = values_us;
  std::ranges::sort(sorted);
  const auto at = [&](double part) {  // the nearest rank
    if (sorted.empty()) return 0.0;
    const double rank = std::ceil(part * static_cast<double>(sorted.size())) - 1;
    return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(std::max(rank, 0.0)))];
  };
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {{"count", sorted.size()}, {"mean_us", sorted.empty() ? 0 : sum / static_cast<double>(sorted.size())},
          {"p50_us", at(0.5)},      {"p90_us", at(0.9)},
          {"p95_us", at(0.95)},     {"p99_us", at(0.99)},
          {"p99.9_us", at(0.999)},  {"p99.99_us", at(0.9999)},
          {"max_us", at(1)}};
}

nlohmann::json histogram(const std::vector<double>& values_us) {
  std::map<int, std::int64_t> bins;
  for (const double value : values_us) {
    int exponent = 0;
    const double mantissa = std::frexp(std::max(value, 1.0), &exponent);  // 0.5 to 1
    ++bins[exponent * kBinsForTwo + static_cast<int>((2 * mantissa - 1) * kBinsForTwo)];
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [bin, count] : bins) {
    const int exponent = bin / kBinsForTwo, part = bin % kBinsForTwo;
    list.push_back({std::ldexp(0.5 * (1 + static_cast<double>(part + 1) / kBinsForTwo), exponent), count});
  }
  return list;
}

}  // namespace tessera::bench
