#include "backends/simulated/timeline.h"

#include <algorithm>
#include <tuple>

#include "base/assert.h"
#include "base/numbers/philox.h"

namespace tessera::backends::simulated {

bool Timeline::Candidate::comes_before(const Candidate& other) const {
  return std::tie(start_ns, ready_ns, order) < std::tie(other.start_ns, other.ready_ns, other.order);
}

void Timeline::use_clock(Clock& clock) {
  const std::lock_guard lock(mutex_);
  clock_ = &clock;
  free_at_ns_ = {};
}

Clock& Timeline::clock() const {
  const std::lock_guard lock(mutex_);
  return *clock_;
}

int Timeline::add_stream() {
  const std::lock_guard lock(mutex_);
  streams_.emplace(next_stream_, Stream{});
  return next_stream_++;
}

void Timeline::remove_stream(int stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found->second.entries.empty()) streams_.erase(found);
  else found->second.removed = true;
}

void Timeline::push(int stream, Entry entry) {
  const std::lock_guard lock(mutex_);
  entry.earliest_ns = clock_->now_ns();
  entry.order = base::Philox(seed_, enqueued_++).next_u64();
  streams_.at(stream).entries.push_back(std::move(entry));
}

void Timeline::enqueue(int stream, const TimedOperation& operation) {
  push(stream, {.operation = operation});
}

TimePoint Timeline::record(int stream) {
  auto point = std::make_shared<std::optional<std::int64_t>>();
  push(stream, {.records = point});
  return point;
}

void Timeline::wait(int stream, const TimePoint& point) {
  push(stream, {.after = point});
}

std::int64_t Timeline::wait_on_host(const TimePoint& point) {
  while (true) {
    std::unique_lock lock(mutex_);
    Clock& clock = *clock_;
    std::int64_t time = 0;
    if (point->has_value()) {
      time = **point;
      lock.unlock();
      if (time > clock.now_ns()) clock.sleep_until(time);
      return time;
    }
    const Candidate next = next_candidate();
    TESSERA_ASSERT(next.stream >= 0, "a host thread waits for what nobody enqueued");
    if (next.start_ns <= clock.now_ns()) {
      decide(next);
      continue;
    }
    // While this thread waits, another one may enqueue an operation that comes earlier on the clock.
    lock.unlock();
    clock.sleep_until(next.start_ns);
  }
}

std::int64_t Timeline::synchronise(int stream) {
  const std::int64_t time = wait_on_host(record(stream));
  const std::lock_guard lock(mutex_);
  // Work enqueued from here on comes later on the clock anyway: the end of earlier work no longer matters.
  Stream& synchronised = streams_.at(stream);
  if (synchronised.entries.empty()) synchronised.time_ns = 0;
  return time;
}

bool Timeline::is_reached(const TimePoint& point) {
  const std::int64_t asked_ns = clock().now_ns() + kPollNs;
  while (true) {
    std::unique_lock lock(mutex_);
    Clock& clock = *clock_;
    const Candidate next = next_candidate();
    if (next.stream >= 0 && next.start_ns <= clock.now_ns()) {
      decide(next);
      continue;
    }
    const bool more = next.stream >= 0 && next.start_ns < asked_ns;
    if (!more && clock.now_ns() >= asked_ns) return point->has_value() && **point <= asked_ns;
    lock.unlock();
    clock.sleep_until(more ? next.start_ns : asked_ns);
  }
}

std::int64_t Timeline::busy_ns(Engine engine) const {
  const std::lock_guard lock(mutex_);
  return busy_ns_[static_cast<std::size_t>(engine)];
}

Timeline::Candidate Timeline::next_candidate() const {
  Candidate best;
  for (const auto& [id, stream] : streams_) {
    if (stream.entries.empty()) continue;
    const Entry& entry = stream.entries.front();
    if (entry.after != nullptr && !entry.after->has_value()) continue;
    Candidate candidate{.stream = id, .order = entry.order};
    candidate.ready_ns = std::max({stream.time_ns, entry.earliest_ns, entry.after != nullptr ? **entry.after : 0}) +
                         entry.operation.launch_ns;
    const Engine engine = entry.operation.engine;
    candidate.start_ns = engine == Engine::none
                             ? candidate.ready_ns
                             : std::max(candidate.ready_ns, free_at_ns_[static_cast<std::size_t>(engine)]);
    if (best.stream < 0 || candidate.comes_before(best)) best = candidate;
  }
  return best;
}

void Timeline::decide(const Candidate& candidate) {
  const auto found = streams_.find(candidate.stream);
  Stream& stream = found->second;
  const Entry entry = std::move(stream.entries.front());
  stream.entries.pop_front();
  stream.time_ns = candidate.start_ns + entry.operation.duration_ns;
  const auto engine = static_cast<std::size_t>(entry.operation.engine);
  if (entry.operation.engine != Engine::none) {
    free_at_ns_[engine] = stream.time_ns;
    busy_ns_[engine] += entry.operation.duration_ns;
  }
  if (entry.records != nullptr) *entry.records = stream.time_ns;
  if (stream.removed && stream.entries.empty()) streams_.erase(found);
}

}  // namespace tessera::backends::simulated
