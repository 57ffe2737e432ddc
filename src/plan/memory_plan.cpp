#include "plan/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/numbers/checked.h"

namespace tessera::plan {
namespace {

std::int64_t largest_live(const std::vector<BufferRequest>& requests) {
  std::int64_t steps = 0;
  for (const BufferRequest& request : requests) steps = std::max(steps, request.last + 2);
  std::vector<std::int64_t> change(static_cast<std::size_t>(steps), 0);
  for (const BufferRequest& request : requests) {
    change[static_cast<std::size_t>(request.first)] += request.bytes;
    change[static_cast<std::size_t>(request.last) + 1] -= request.bytes;
  }
  std::int64_t live = 0, largest = 0;
  for (std::int64_t delta : change) largest = std::max(largest, live += delta);
  return largest;
}

bool overlap_in_time(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

// For each request, those that overlap it in time, in no particular order. Nothing if there are too many of them: in a
// training step, each feature map lives until its gradient is computed.
using Neighbours = std::vector<std::vector<std::uint32_t>>;
std::optional<Neighbours> find_neighbours(const std::vector<BufferRequest>& requests) {
  constexpr std::size_t kMostPairs = std::size_t{1} << 22;
  std::vector<std::uint32_t> by_begin(requests.size()), live;
  std::iota(by_begin.begin(), by_begin.end(), std::uint32_t{0});
  std::ranges::stable_sort(by_begin, {}, [&](std::uint32_t i) { return requests[i].first; });
  Neighbours neighbours(requests.size());
  std::size_t pairs = 0;
  for (const std::uint32_t each : by_begin) {
    std::erase_if(live, [&](std::uint32_t other) { return requests[other].last < requests[each].first; });
    if ((pairs += live.size()) > kMostPairs) return std::nullopt;
    for (const std::uint32_t other : live) {
      neighbours[each].push_back(other);
      neighbours[other].push_back(each);
    }
    live.push_back(each);
  }
  return neighbours;
}

// Places requests one by one, each into the smallest gap among the placed ones that it overlaps in time (best fit;
// Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
class Placer {
 public:
  Placer(const std::vector<BufferRequest>& requests, const std::optional<Neighbours>& neighbours)
      : requests_(requests), neighbours_(neighbours) {
    plan_.offsets.assign(requests.size(), -1);
  }

  MemoryPlan place(const std::vector<std::size_t>& order) && {
    for (const std::size_t current : order) place(current);
    return std::move(plan_);
  }

 private:
  void place(std::size_t current) {
    find_taken(current);
    const std::int64_t bytes = requests_[current].bytes;
    std::int64_t best = -1, best_gap = INT64_MAX, previous_end = 0;
    for (const auto& [begin, end] : taken_) {
      const std::int64_t gap = begin - previous_end;
      if (gap >= bytes && gap < best_gap) {
        best = previous_end;
        best_gap = gap;
      }
      previous_end = std::max(previous_end, end);
    }
    const std::int64_t offset = best >= 0 ? best : previous_end;
    plan_.offsets[current] = offset;
    plan_.arena_bytes = std::max(plan_.arena_bytes, offset + bytes);
    if (neighbours_) return;
    const auto position =
        std::ranges::upper_bound(placed_, offset, {}, [&](std::size_t index) { return plan_.offsets[index]; });
    placed_.insert(position, current);
  }

  // Collects the bytes of the placed requests that overlap this one in time, ordered by where they begin.
  void find_taken(std::size_t current) {
    taken_.clear();
    const auto take = [&](std::size_t other) {
      taken_.emplace_back(plan_.offsets[other], plan_.offsets[other] + requests_[other].bytes);
    };
    if (neighbours_) {
      for (const std::uint32_t other : (*neighbours_)[current]) {
        if (plan_.offsets[other] >= 0) take(other);
      }
      std::ranges::sort(taken_);
      return;
    }
    for (const std::size_t other : placed_) {
      if (overlap_in_time(requests_[current], requests_[other])) take(other);
    }
  }

  const std::vector<BufferRequest>& requests_;
  const std::optional<Neighbours>& neighbours_;
  MemoryPlan plan_;
  std::vector<std::size_t> placed_;  // by offset; used if the neighbours are not known
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
};

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferRequest>& given) {
  std::vector<BufferRequest> requests = given;
  std::int64_t total = 0;
  for (BufferRequest& request : requests) {
    request.bytes = base::round_up(std::max<std::int64_t>(request.bytes, 1), kArenaAlignment);
    total = base::checked_add(total, request.bytes);
  }
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto duration = [&](std::size_t i) { return requests[i].last - requests[i].first; };

  const std::int64_t bound = largest_live(requests);
  const std::optional<Neighbours> neighbours = find_neighbours(requests);
  MemoryPlan best;
  auto attempt = [&](auto less) {
    if (!best.offsets.empty() && best.arena_bytes <= bound) return;
    std::vector<std::size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), less);
    MemoryPlan plan = Placer(requests, neighbours).place(sorted);
    if (best.offsets.empty() || plan.arena_bytes < best.arena_bytes) best = std::move(plan);
  };
  attempt([&](std::size_t a, std::size_t b) { return requests[a].bytes > requests[b].bytes; });
  attempt([&](std::size_t a, std::size_t b) { return requests[a].first < requests[b].first; });
  attempt([&](std::size_t a, std::size_t b) { return duration(a) > duration(b); });
  attempt([&](std::size_t a, std::size_t b) {
    return static_cast<double>(requests[a].bytes) * static_cast<double>(duration(a) + 1) >
           static_cast<double>(requests[b].bytes) * static_cast<double>(duration(b) + 1);
  });
  best.largest_live_bytes = bound;
  return best;
}

}  // namespace tessera::plan
