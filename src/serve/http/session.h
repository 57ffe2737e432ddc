// One HTTP connection: requests are read, handed on and answered one after the other.
#pragma once

#include <memory>

#include "serve/http/limits.h"
#include "serve/http/message.h"
#include "serve/http/transport.h"

namespace tessera::serve {

// What the connections of a server share.
struct HttpShared {
  HttpLimits limits;
  BodyBudget bodies;
  std::atomic<std::int64_t>& connections;
  std::atomic<bool> draining{false};
};

class HttpSession {
 public:
  virtual ~HttpSession() = default;
  // Ends the connection as soon as no request is in progress. Thread-safe.
  virtual void drain() = 0;
};

// Begins to serve the connection, which keeps itself alive until it ends. `shared` and `handler` must outlive it.
std::weak_ptr<HttpSession> start_http_session(std::unique_ptr<Transport> transport, HttpShared& shared,
                                              const Handler& handler);

}  // namespace tessera::serve
