// The connections of the gRPC server. They are accepted here and handed to gRPC, which has no limit of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "serve/limits/peer_address.h"

namespace tessera::serve {

// Thread-safe. Where all places are taken, of the port or of one IP address, the connection that has been without calls
// the longest is closed for the newcomer; without one, the newcomer is closed.
class GrpcConnections {
 public:
  struct Limits {
    std::int64_t all = 1024, per_peer = 512;
  };
  // Gets the descriptor of a connection, and owns it.
  using Take = std::function<void(int descriptor)>;

  // Binds and listens on "HOST:PORT" (port 0: a free one). Throws Error(io) where the address cannot be had.
  GrpcConnections(const std::string& address, const Limits& limits);
  ~GrpcConnections();
  GrpcConnections(const GrpcConnections&) = delete;
  GrpcConnections& operator=(const GrpcConnections&) = delete;

  int port() const { return port_; }
  void start(Take take);
  // Takes no more connections; those that are open stay.
  void stop();

  void begin_call(const PeerAddress& peer);
  void end_call(const PeerAddress& peer);

  std::int64_t open();  // connections
  std::int64_t refused() const { return refused_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Place {
    int descriptor = -1;
    std::uint64_t socket = 0;  // the number of its inode: it says whether the descriptor is still of this connection
    std::int64_t calls = 0;
    Clock::time_point idle_since;
  };

  void run();
  void accept();
  bool has_place(const PeerAddress& peer);
  void forget_closed();
  bool close_longest_idle(const std::string* ip);

  const Limits limits_;
  int listener_ = -1, stop_ = -1, port_ = 0;
  Take take_;
  std::atomic<std::int64_t> refused_{0};
  std::mutex mutex_;
  std::map<PeerAddress, Place> places_;  // those of one IP address lie side by side
  std::thread thread_;
};

}  // namespace tessera::serve
