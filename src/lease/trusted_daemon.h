// A connection to a daemon that this process may trust. The daemon decides when the process computes, and writes to
// memory that the process reads: a daemon of a stranger could make it stand still.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lease/messages.h"

namespace tessera::lease {

// The result of trying to connect to a daemon.
struct DaemonConnection {
  enum class Failure : std::uint8_t { none, no_daemon, no_permission, not_trusted };
  Socket socket;  // open where there was no failure
  Failure failure = Failure::none;
  std::string why;  // a sentence that names the path, without a full stop
};

// Connects where the folder of the socket, the socket and the process that listens belong to this process's user, to
// root, or to one of `trusted`, and nobody else may change the folder.
DaemonConnection connect_to_daemon(const std::string& path, std::span<const uid_t> trusted);

// The users of a list of names and numbers with commas between. Throws Error(invalid_argument) for a name that nobody
// has; `where` says whose list it is.
std::vector<uid_t> parse_users(const std::string& list, const std::string& where);
// The users that TESSERA_SHARE_TRUST lists. Throws Error(invalid_argument).
std::vector<uid_t> trusted_by_environment();

}  // namespace tessera::lease
