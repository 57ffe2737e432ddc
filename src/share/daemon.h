// The process that shares a device among others: it listens on a Unix socket, lets processes of its user attach, and
// keeps their leases. It loads no model and computes nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lease/messages.h"
#include "share/lease_keeper.h"
#include "tessera/session.h"

namespace tessera::share {

struct DaemonOptions {
  std::string socket;             // path; "": lease::default_socket_path()
  std::string policy = "fill";    // one of policy_names()
  std::int64_t memory_bytes = 0;  // for guarantees and limits; 0: what this process may use
  std::vector<uid_t> users;       // who may attach beside the daemon's own user
};

// Keys `policy`, `memory` ("8GiB") and `users` (names or numbers) of a TOML text. Throws Error(invalid_argument).
DaemonOptions parse_daemon_options(const std::string& text, const std::string& where);

// Used by one thread.
class Daemon {
 public:
  // Listens. Throws Error: invalid_argument (unknown policy, path too long), failed (another daemon listens there), io
  // (the folder cannot be made, or is another user's).
  explicit Daemon(const DaemonOptions& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Until cancelled, looked at five times a second.
  void serve(const Cancellation& cancellation);
  const std::string& socket_path() const { return path_; }

 private:
  struct Peer;

  void listen();
  void accept_peer();
  // False: the connection is to be closed.
  bool answer(Peer& peer);
  bool attach(Peer& peer, const lease::Request& request);
  bool charge(Peer& peer, const lease::Request& request);
  bool lend(const Peer& peer, const lease::Request& request);
  bool send_status(const Peer& peer) const;
  void drop_unattached(std::int64_t now_ns);
  void drop(Peer& peer);

  DaemonOptions options_;
  std::string path_;
  LeaseKeeper leases_;
  lease::Socket lock_, listener_, kick_;
  std::list<Peer> peers_;
};

// The state that the daemon sends to `tessera share status`, as JSON text.
std::string status_text(const std::string& policy, const std::vector<LeaseReport>& jobs, std::int64_t now_ns);

}  // namespace tessera::share
