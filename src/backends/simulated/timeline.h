// Decides when each operation on a simulated device begins and ends, on a clock of the caller, by durations alone and
// independently of how fast the threads of this machine are.
//
// The operations of one stream run one after the other. An operation occupies an engine for its duration: a kernel the
// compute engine, a copy the copy engine of its direction. So copies and kernels of different streams overlap, and two
// kernels do not. The launch before the start of an operation occupies no engine. Operations are decided in the order
// of their start times; operations that could start at the same time are ordered by the seed.
//
// The clock is usually virtual (base/threads/clock.h): it stands still until a host thread waits, and then advances
// only to the next event, so that threads of VirtualClock::run() see equal times in each run.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tessera/clock.h"

namespace tessera::backends::simulated {

enum class Engine : std::uint8_t { none, compute, to_device, to_host };
inline constexpr std::size_t kEngines = 4;

// A point in a stream; its time is set once everything before it is decided.
using TimePoint = std::shared_ptr<std::optional<std::int64_t>>;

struct TimedOperation {
  Engine engine = Engine::none;
  std::int64_t launch_ns = 0, duration_ns = 0;
};

// Thread-safe.
class Timeline {
 public:
  Timeline(Clock& clock, std::uint64_t seed) : clock_(&clock), seed_(seed) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Uses the times of another clock, which must outlive this. To be called while nothing is enqueued.
  void use_clock(Clock& clock);
  Clock& clock() const;

  int add_stream();
  // Removes a stream once all of its operations are decided.
  void remove_stream(int stream);

  // Enqueues an operation, which starts no earlier than now.
  void enqueue(int stream, const TimedOperation& operation);
  // The point after everything that is enqueued on the stream.
  TimePoint record(int stream);
  // Operations enqueued after this call start no earlier than the point, which may belong to another stream.
  void wait(int stream, const TimePoint& point);

  // Blocks the calling thread until the point on the clock, and returns its time.
  std::int64_t wait_on_host(const TimePoint& point);
  // Blocks the calling thread until the end of everything enqueued on the stream, and returns that time.
  std::int64_t synchronise(int stream);
  // Whether the point has been reached. Each call takes kPollNs on the clock, so that a polling loop ends.
  bool is_reached(const TimePoint& point);

  // The time that an engine was busy with the operations decided so far.
  std::int64_t busy_ns(Engine engine) const;

  static constexpr std::int64_t kPollNs = 1000;

 private:
  struct Entry {
    TimedOperation operation = {};
    std::int64_t earliest_ns = 0;  // when it was enqueued
    std::uint64_t order = 0;       // breaks ties
    // At most one is set, for an operation that takes no time.
    TimePoint after = nullptr, records = nullptr;
  };
  struct Stream {
    std::deque<Entry> entries;
    std::int64_t time_ns = 0;  // the end of the last decided operation
    bool removed = false;
  };
  struct Candidate {
    int stream = -1;
    std::int64_t start_ns = 0, ready_ns = 0;
    std::uint64_t order = 0;
    bool comes_before(const Candidate& other) const;
  };

  void push(int stream, Entry entry);
  Candidate next_candidate() const;
  void decide(const Candidate& candidate);

  mutable std::mutex mutex_;
  Clock* clock_;
  const std::uint64_t seed_;
  std::uint64_t enqueued_ = 0;
  int next_stream_ = 0;
  std::map<int, Stream> streams_;
  std::array<std::int64_t, kEngines> free_at_ns_{}, busy_ns_{};
};

}  // namespace tessera::backends::simulated
