// The memory that a daemon and the processes attached to it share: who computes, and who may. A process reads a few
// words of it between two chunks of work to see whether it is to give way, and writes a word to ask others to; no
// system call is made for either.
//
// The daemon makes the memory (memfd) and passes it over its socket. Whoever may attach may write all of it: they are
// processes of one user, or of users that the daemon's configuration trusts. The daemon keeps its own state elsewhere
// and takes nothing in here for more than a claim.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tessera/gate.h"

namespace tessera::lease {

inline constexpr int kMostJobs = 64;  // a bit each in the masks
inline constexpr std::uint32_t kBoardVersion = 2;
inline constexpr std::size_t kKeptLatencies = 512;

// What the process of a slot does. `held`: its runs would go on, but a higher class computes.
enum class Activity : std::uint32_t { idle, computes, waits, held };

struct BoardSlot {
  // Written by the daemon.
  alignas(64) std::atomic<std::uint32_t> granted{
      0};  // 1: runs of the job may compute as far as the daemon is concerned
  std::atomic<std::uint32_t> priority{0};
  std::atomic<std::int64_t> wanted_bytes{0};  // of what the job has borrowed, by others that wait for it
  // Counts up when its sleepers should look again; they wait on it (futex).
  alignas(64) std::atomic<std::uint32_t> wake{0};
  std::atomic<std::uint32_t> sleepers{0};
  // Written by the process.
  alignas(64) std::atomic<Activity> activity{Activity::idle};
  std::atomic<std::uint64_t> runs_begun{0}, runs_ended{0}, runs_failed{0};
  std::atomic<std::uint64_t> progress{0};   // counts steps
  std::atomic<std::int64_t> arrival_ns{0};  // of the oldest run in progress, on the steady clock
  std::atomic<std::int64_t> waited_ns{0};
  std::atomic<std::int64_t> goal_misses{0};
  std::atomic<std::uint64_t> spills{0};    // how often runs gave their memory to others between two steps
  std::atomic<std::int64_t> error_ppm{0};  // of predictions of steps: the median, in millionths
  std::array<std::atomic<std::uint32_t>, kKeptLatencies> latency_us{};  // of the latest runs, at runs_ended modulo size
};

struct Board {
  std::uint32_t version = kBoardVersion;
  std::atomic<std::uint32_t> contended{0};  // 1: more than one job is attached, so the daemon wants to know who begins
  std::atomic<std::uint32_t> has_memory_limit{0};  // 1: memory is bounded, so background runs borrow their arenas
  std::atomic<std::int64_t> heartbeat_ns{0};       // when the daemon last looked, on the steady clock
  std::atomic<std::uint64_t> attached{0};          // a bit for each slot in use
  std::atomic<std::uint64_t> waiting{0};           // a bit for each slot whose runs wait to be granted their turn
  // A bit for each slot whose runs compute, by class.
  alignas(64) std::array<std::atomic<std::uint64_t>, kPriorities> active{};
  std::array<BoardSlot, kMostJobs> slots;

  // The slots of higher classes than `priority` that compute.
  std::uint64_t active_above(Priority priority) const {
    std::uint64_t mask = 0;
    for (std::size_t i = static_cast<std::size_t>(priority) + 1; i < kPriorities; ++i) mask |= active[i].load();
    return mask;
  }
  void set_active(int slot, Priority priority) { active[static_cast<std::size_t>(priority)].fetch_or(bit(slot)); }
  // Wakes those of lower classes that the slot kept from computing, if it computed.
  void clear_active(int slot, Priority priority);

  static std::uint64_t bit(int slot) { return std::uint64_t{1} << slot; }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Activity>::is_always_lock_free);

// Lets the slot's sleepers look again.
void wake(BoardSlot& slot);
// Sleeps until the futex no longer has the value `seen`, at most so long.
void sleep_on(std::atomic<std::uint32_t>& futex, std::uint32_t seen, std::int64_t most_ns);

// Sleeps until the slot is woken, at most so long; not at all if `done` is true. Whoever makes it true wakes the slot,
// if it has sleepers, afterwards.
template <typename Done>
void sleep_until_woken(BoardSlot& slot, std::int64_t most_ns, const Done& done) {
  slot.sleepers.fetch_add(1);
  const std::uint32_t seen = slot.wake.load();
  if (!done()) sleep_on(slot.wake, seen, most_ns);
  slot.sleepers.fetch_sub(1);
}

// A board mapped into this process. The mapping stays as long as this lives.
class SharedBoard {
 public:
  // A new one, in memory of its own. Throws Error(io).
  SharedBoard();
  // That of a descriptor, which is taken over. Throws Error(invalid_argument) where it is no board.
  explicit SharedBoard(int descriptor);
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  Board* operator->() const { return board_; }
  Board& operator*() const { return *board_; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  Board* board_ = nullptr;
};

}  // namespace tessera::lease
