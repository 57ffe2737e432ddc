// Threads that the operating system takes off a core at once when another thread of the process wants it: those that
// compute for background runs, under Linux's SCHED_IDLE (sched(7)). A realtime run then begins without waiting until
// they reach a yield point.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera::base {

// From here on background runs of this process compute on such threads, if it may raise a thread again afterwards
// (CAP_SYS_NICE, or RLIMIT_NICE) and is not itself under another policy. Returns whether they do. Before that, and
// where it is not possible, they compute on threads like all others.
bool let_background_idle();
// Whether they do. Cheap.
bool background_idles();

// The calling thread's policy, while it computes chunks of a background run. It holds no lock that others need then:
// who holds one and is not scheduled keeps them waiting.
void begin_to_idle();
void end_to_idle();

// The processors that threads computing for one background loop are on, a bit each, of the first 64.
//
// The system takes a processor on which only such threads compute for an idle one and wakes others of them there
// (Linux: sched_idle_cpu), and does not balance what weighs next to nothing. Two threads of a loop would stay on one
// processor with another one idle beside them.
class OccupiedProcessors {
 public:
  void add_current() { add(); }
  // Adds that of the calling thread, which first moves to one that is not occupied if there is one.
  void move_to_free_one();

 private:
  // The bit of the calling thread's processor, and whether it was there before.
  std::pair<std::uint64_t, bool> add();

  std::atomic<std::uint64_t> mask_{0};
};

}  // namespace tessera::base
