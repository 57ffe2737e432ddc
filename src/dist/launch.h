// Starts a program several times, as the ranks of one group on this machine.
#pragma once

#include <string>
#include <vector>

namespace tessera::dist {

// Runs this program's own executable once per rank with these arguments (the first is its name) and with the variables
// of rendezvous.h, and waits for all of them. Rank 0 has the terminal; what others write to stderr is shown only if
// rank 0 cannot say what happened. Each rank computes with its share of the cores, unless TESSERA_NUM_THREADS says
// otherwise. When a rank fails, the others have a few seconds to end by themselves. Returns the exit code: that of
// rank 0, or else of the rank that failed; 128 + the signal for a rank that was killed. Signals to end go to rank 0,
// which tells the others. Must be called before the process has threads. Throws Error(io or over_budget).
int launch_ranks(int ranks, const std::vector<std::string>& arguments);

}  // namespace tessera::dist
