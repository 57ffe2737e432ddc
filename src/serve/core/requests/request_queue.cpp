#include "serve/core/requests/request_queue.h"

#include <algorithm>
#include <limits>

namespace tessera::serve {

void RequestQueue::add(std::uint64_t priority, QueuedCall call) {
  calls_.emplace(Key{priority, arrivals_++}, std::move(call));
}

std::int64_t RequestQueue::rows_before(std::uint64_t priority) const {
  std::int64_t rows = 0;
  for (const auto& [key, queued] : calls_) {
    if (key.first > priority) break;
    rows += queued.rows;
  }
  return rows;
}

void RequestQueue::postpone(std::int64_t now_ns) {
  constexpr std::uint64_t kBehind = std::uint64_t{1} << 63;
  std::vector<Key> due;
  for (const auto& [key, queued] : calls_) {
    if (queued.postponed_ns != 0 && queued.postponed_ns <= now_ns && (key.second & kBehind) == 0) due.push_back(key);
  }
  for (const Key& key : due) {
    auto call = calls_.extract(key);
    call.key().second |= kBehind;
    calls_.insert(std::move(call));
  }
}

std::vector<QueuedCall> RequestQueue::take_lapsed(std::int64_t now_ns) {
  std::vector<QueuedCall> lapsed;
  for (auto it = calls_.begin(); it != calls_.end();) {
    const Call& call = *it->second.call;
    const bool late = call.deadline_ns != 0 && call.deadline_ns <= now_ns;
    if (!late && !call.cancellation.flag().load(std::memory_order_relaxed)) {
      ++it;
      continue;
    }
    lapsed.push_back(std::move(it->second));
    it = calls_.erase(it);
  }
  return lapsed;
}

// Returns how many of the waiting rows to compute at once; 0 to wait for more.
std::int64_t RequestQueue::rows_to_take(std::int64_t rows, bool waited) const {
  if (rows >= rule_.most_rows) return rule_.most_rows;
  if (!rule_.preferred.empty() && rows >= rule_.preferred.back()) return rule_.preferred.back();
  if (!waited) return 0;
  const auto above = std::ranges::upper_bound(rule_.preferred, rows);
  return above != rule_.preferred.begin() ? *std::prev(above) : rows;
}

std::vector<QueuedCall> RequestQueue::take_batch(std::int64_t now_ns, std::int64_t run_ns) {
  std::vector<QueuedCall> batch;
  look_again_ns_ = std::numeric_limits<std::int64_t>::max();
  if (calls_.empty()) return batch;
  const std::string kind = calls_.begin()->second.kind;
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::int64_t rows = 0, oldest_ns = kNever, latest_start_ns = kNever;
  for (const auto& [key, queued] : calls_) {
    if (queued.kind != kind) continue;
    rows += queued.rows;
    oldest_ns = std::min(oldest_ns, queued.queued_ns);
    // Twice the time of a run, as that is a prediction.
    if (queued.call->deadline_ns != 0)
      latest_start_ns = std::min(latest_start_ns, queued.call->deadline_ns - 2 * run_ns);
    if (rows >= rule_.most_rows) break;
  }
  const std::int64_t due_ns = std::min(oldest_ns + rule_.delay_ns, latest_start_ns);
  std::int64_t left = rows_to_take(rows, now_ns >= due_ns);
  if (left == 0) {
    look_again_ns_ = due_ns;
    return batch;
  }
  for (auto it = calls_.begin(); it != calls_.end() && left > 0;) {
    const bool first = batch.empty();
    if (it->second.kind != kind || (!first && it->second.rows > left)) {
      if (it->second.kind == kind) break;  // nobody overtakes a request of its own kind
      ++it;
      continue;
    }
    left -= it->second.rows;
    batch.push_back(std::move(it->second));
    it = calls_.erase(it);
  }
  return batch;
}

}  // namespace tessera::serve
