// How the processes of a group find each other: which rank this one is, and where the others are.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/socket_ranks.h"

namespace tessera::dist {

inline constexpr int kMostRanks = 1024;
// The variables that the launcher of this program sets.
inline constexpr const char *kRankVariable = "TESSERA_RANK", *kRanksVariable = "TESSERA_RANKS",
                            *kRendezvousVariable = "TESSERA_RENDEZVOUS";

struct RankPlace {
  int rank = 0, ranks = 1;
  std::string folder;  // in which each rank has a Unix socket
};

// The place that the environment gives this process: that of our own launcher, of Open MPI's mpirun, or of a Slurm
// step; nothing if it runs alone. Throws Error(invalid_argument) for numbers that make no sense, and Error(unsupported)
// if the ranks are on several machines, or were started by a launcher that is not known.
std::optional<RankPlace> place_from_environment();

// Connects this process with all other ranks and waits until they have come, at most as long as the timeout. Throws
// Error(failed), which names the ranks that are missing, and Error(io).
std::shared_ptr<base::Communicator> join_ranks(const RankPlace& place, const SocketRankOptions& options);

}  // namespace tessera::dist
