// Ranks that are processes, connected by stream sockets: one between each two of them.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/communicator.h"

namespace tessera::dist {

struct SocketPeer {
  int descriptor = -1;  // a connected stream socket, which the communicator closes; -1 for this rank itself
  std::string host;
  std::int64_t process = 0;
};

struct SocketRankOptions {
  // How long a rank waits for another one that sends nothing at all (its process is stopped, or its machine is gone),
  // or that is alive but does not reach an exchange.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

// The communicator of this process over such sockets; `peers` has an entry for each rank. A thread of its own sends and
// receives, so that exchanges make progress while their ranks compute. Failures name the rank, its host and its
// process: it ended without a goodbye, was stopped with a reason, did not answer, or sent what nobody expects.
std::shared_ptr<base::Communicator> make_socket_ranks(int rank, std::vector<SocketPeer> peers,
                                                      const SocketRankOptions& options);

}  // namespace tessera::dist
