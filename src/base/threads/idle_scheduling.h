// SCHED_IDLE of Linux (sched(7)) for threads that compute for background runs: the operating system takes such a thread
// off its core as soon as another thread of the process wants the core. A realtime run can then begin without waiting
// until they reach a yield point.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera::base {

// Lets background runs of this process compute on such threads from here on, if the process may raise a thread's policy
// again afterwards (CAP_SYS_NICE, or RLIMIT_NICE) and is itself under the usual policy. Returns whether it succeeded;
// otherwise they go on computing on ordinary threads.
bool let_background_idle();
// Whether background runs compute on such threads. Cheap.
bool background_idles();

// Switch the calling thread to SCHED_IDLE and back, around chunks of a background run. The thread must hold no lock in
// between that others need, because they would wait for a thread that is not scheduled.
void begin_to_idle();
void end_to_idle();

// The processors on which threads compute for one background loop: a bitmask of the first 64 processors.
// The system treats a processor on which only SCHED_IDLE threads compute as idle and wakes others of them there (Linux:
// sched_idle_cpu), and it does not balance threads of so little weight. Without this, two threads of a loop would stay
// on one processor while another one beside them is idle.
class OccupiedProcessors {
 public:
  void add_current() { add(); }
  // Adds the calling thread's processor, after moving the thread to one that is not occupied if there is one.
  void move_to_free_one();

 private:
  // The bit of the calling thread's processor, and whether it was set before.
  std::pair<std::uint64_t, bool> add();

  std::atomic<std::uint64_t> mask_{0};
};

}  // namespace tessera::base
