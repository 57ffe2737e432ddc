// The board is the memory that a daemon and the processes attached to it share. It tells who computes and who may
// compute. Between two chunks of work, a process reads a few words of it to see whether it has to give way, and it
// writes a word to ask others to do so; neither takes a system call.
//
// The daemon makes the memory (memfd) and passes it over its socket. Every attached process may write all of it: they
// are processes of one user, or of users that the daemon's configuration trusts. The daemon keeps its own state
// elsewhere and treats everything in the board as an unverified claim.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tessera/gate.h"

namespace tessera::lease {

inline constexpr int kMostJobs = 64;  // one bit each in the masks
inline constexpr std::uint32_t kBoardVersion = 2;
inline constexpr std::size_t kKeptLatencies = 512;

// The state of a slot's process. `held` means that its runs would go on, but a higher class computes.
enum class Activity : std::uint32_t { idle, computes, waits, held };

struct BoardSlot {
  // Members written by the daemon.
  alignas(64) std::atomic<std::uint32_t> granted{0};  // 1 if the daemon lets runs of the job compute
  std::atomic<std::uint32_t> priority{0};
  std::atomic<std::int64_t> wanted_bytes{0};  // bytes of the job's borrowed memory that others wait for
  // Incremented when the slot's sleepers should look again; they wait on it (futex).
  alignas(64) std::atomic<std::uint32_t> wake{0};
  std::atomic<std::uint32_t> sleepers{0};
  // Members written by the process.
  alignas(64) std::atomic<Activity> activity{Activity::idle};
  std::atomic<std::uint64_t> runs_begun{0}, runs_ended{0}, runs_failed{0};
  std::atomic<std::uint64_t> progress{0};   // number of steps so far
  std::atomic<std::int64_t> arrival_ns{0};  // of the oldest run in progress, on the steady clock
  std::atomic<std::int64_t> waited_ns{0};
  std::atomic<std::int64_t> goal_misses{0};
  std::atomic<std::uint64_t> spills{0};    // how often runs gave their memory to others between two steps
  std::atomic<std::int64_t> error_ppm{0};  // median error of the predictions of steps, in millionths
  // of the latest runs, at index runs_ended modulo size
  std::array<std::atomic<std::uint32_t>, kKeptLatencies> latency_us{};
};

struct Board {
  std::uint32_t version = kBoardVersion;
  // 1 if more than one job is attached, so that the daemon wants to know when runs begin
  std::atomic<std::uint32_t> contended{0};
  // 1 if memory is limited, so that background runs borrow their arenas
  std::atomic<std::uint32_t> has_memory_limit{0};
  std::atomic<std::int64_t> heartbeat_ns{0};  // when the daemon last looked at the board, on the steady clock
  std::atomic<std::uint64_t> attached{0};     // one bit per slot in use
  std::atomic<std::uint64_t> waiting{0};      // one bit per slot whose runs wait for their turn
  // By class, one bit per slot whose runs compute.
  alignas(64) std::array<std::atomic<std::uint64_t>, kPriorities> active{};
  std::array<BoardSlot, kMostJobs> slots;

  // The mask of slots of higher classes than `priority` that compute.
  std::uint64_t active_above(Priority priority) const {
    std::uint64_t mask = 0;
    for (std::size_t i = static_cast<std::size_t>(priority) + 1; i < kPriorities; ++i) mask |= active[i].load();
    return mask;
  }
  void set_active(int slot, Priority priority) { active[static_cast<std::size_t>(priority)].fetch_or(bit(slot)); }
  // If the slot computed, wakes the processes of lower classes that it kept from computing.
  void clear_active(int slot, Priority priority);

  static std::uint64_t bit(int slot) { return std::uint64_t{1} << slot; }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Activity>::is_always_lock_free);

// Makes the slot's sleepers look again.
void wake(BoardSlot& slot);
// Sleeps until the futex no longer has the value `seen`, for at most `most_ns`.
void sleep_on(std::atomic<std::uint32_t>& futex, std::uint32_t seen, std::int64_t most_ns);

// Sleeps until the slot is woken, for at most `most_ns`; does not sleep if `done` returns true. Code that makes `done`
// true must wake the slot afterwards if it has sleepers.
template <typename Done>
void sleep_until_woken(BoardSlot& slot, std::int64_t most_ns, const Done& done) {
  slot.sleepers.fetch_add(1);
  const std::uint32_t seen = slot.wake.load();
  if (!done()) sleep_on(slot.wake, seen, most_ns);
  slot.sleepers.fetch_sub(1);
}

// A board mapped into this process. The mapping lasts as long as the object.
class SharedBoard {
 public:
  // Makes a new board. Throws Error(io).
  SharedBoard();
  // Maps the board of a descriptor and takes the descriptor over. Throws Error(invalid_argument) if it is no board.
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
