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
  std::string folder;  // in which each rank has a Unix socket, if our own launcher started them; else MPI connects them
  std::string launcher;      // the variable that told the rank
  int ranks_on_machine = 0;  // 0: not known
};

// The place that the environment gives this process: that of our own launcher, of mpirun, or of a Slurm step; nothing
// if it runs alone. Throws Error(invalid_argument) for numbers that make no sense, and Error(unsupported) if it was
// started by a launcher whose ranks cannot be joined.
std::optional<RankPlace> place_from_environment();

// Connects this process with all other ranks, by the sockets of the folder or by MPI (mpi_ranks.h), and waits until
// they have come, at the sockets at most as long as the timeout. Throws Error(failed), which names the ranks that are
// missing or says that MPI and the environment disagree, Error(unsupported) if MPI is needed and not there, and
// Error(io).
std::shared_ptr<base::Communicator> join_ranks(const RankPlace& place, const SocketRankOptions& options);

// How many threads a rank at this place computes with: its share of the cores that the ranks of this machine have in
// common, or all of those to which the launcher bound this process.
int threads_of_rank(const RankPlace& place);

}  // namespace tessera::dist
