// Ranks that are processes which mpirun or srun started, on one or several machines, connected by MPI.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/communicator.h"

namespace tessera::dist {

struct MpiRankOptions {
  // How long a rank waits for another one that sends nothing at all, or that is alive but does not reach an exchange.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Larger payloads are sent as several messages, because MPI counts in int. All ranks state the same size.
  std::int64_t most_message_bytes = std::int64_t{1} << 30;
};

// The communicator of this process with all ranks of MPI_COMM_WORLD, which can be made once in a process. A thread of
// its own sends and receives, so that exchanges make progress while their ranks compute. Failures name the rank, its
// host and its process. The destructor waits until all ranks have come to theirs; after a failure it does not wait, and
// MPI_Abort ends all ranks when this process exits. Throws Error(unsupported), which says what to install, if the MPI
// plug-in (libtessera_mpi.so) cannot be loaded, and Error(failed) if MPI does not start.
//
// The plug-in is the file that the variable TESSERA_MPI_PLUGIN names, or else the first that is found beside the
// program, in ../lib from there, and where the system looks for libraries.
std::shared_ptr<base::Communicator> make_mpi_ranks(const MpiRankOptions& options);

}  // namespace tessera::dist
