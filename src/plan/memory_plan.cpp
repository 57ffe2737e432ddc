#include "plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

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

// Places the requests in the given order, each into the smallest gap among the placed ones that it overlaps in time
// (best fit; Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
MemoryPlan place_in_order(const std::vector<BufferRequest>& requests, const std::vector<std::size_t>& order) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (std::size_t current : order) {
    const BufferRequest& request = requests[current];
    std::int64_t best = -1, best_gap = INT64_MAX, previous_end = 0;
    for (std::size_t other : placed) {
      const BufferRequest& neighbour = requests[other];
      if (neighbour.last < request.first || request.last < neighbour.first) continue;
      const std::int64_t gap = plan.offsets[other] - previous_end;
      if (gap >= request.bytes && gap < best_gap) {
        best = previous_end;
        best_gap = gap;
      }
      previous_end = std::max(previous_end, plan.offsets[other] + neighbour.bytes);
    }
    const std::int64_t offset = best >= 0 ? best : previous_end;
    plan.offsets[current] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + request.bytes);
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](std::int64_t value, std::size_t index) { return value < plan.offsets[index]; });
    placed.insert(position, current);
  }
  return plan;
}

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
  MemoryPlan best;
  auto attempt = [&](auto less) {
    if (!best.offsets.empty() && best.arena_bytes <= bound) return;
    std::vector<std::size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), less);
    MemoryPlan plan = place_in_order(requests, sorted);
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
