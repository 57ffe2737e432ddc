// Threads that the operating system takes off a core at once when another thread of the process wants it: those that
// compute for background runs, under Linux's SCHED_IDLE (sched(7)). A realtime run then begins without waiting until
// they reach a yield point.
#pragma once

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

}  // namespace tessera::base
