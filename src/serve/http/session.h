// One HTTP connection: requests are read, handed on and answered one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "serve/http/limits.h"
#include "serve/http/message.h"
#include "serve/http/transport.h"

namespace tessera::serve {

// The state that the connections of a server share.
struct HttpShared {
  HttpLimits limits;
  BodyBudget& bodies;
  AccessLog* access_log = nullptr;   // null: none
  std::atomic<bool> leaving{false};  // each answer is the last of its connection
  std::atomic<bool> draining{false};
};

// A connection's place among those of its listener; given back when the last owner goes.
struct HttpSeat {
  std::shared_ptr<void> place;
  bool is_spare = false;    // all usual places are taken: only the health of the server is told
  bool is_refused = false;  // one too many for its peer, or for the listener
};

class HttpSession {
 public:
  virtual ~HttpSession() = default;
  // Ends the connection if no request is in progress. Thread-safe.
  virtual void close_if_idle() = 0;
  // When the last request ended, or the steady clock's greatest time while one is in progress. Thread-safe.
  virtual std::chrono::steady_clock::time_point idle_since() const = 0;
};

// Begins to serve the connection, which keeps itself alive until it ends. `shared` and `handler` must outlive it.
std::weak_ptr<HttpSession> start_http_session(std::unique_ptr<Transport> transport, HttpShared& shared,
                                              HttpHandler& handler, HttpSeat seat);

}  // namespace tessera::serve
