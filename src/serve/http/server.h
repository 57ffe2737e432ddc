// HTTP on one or more addresses.
#pragma once

#include <memory>
#include <string>

#include "serve/http/limits.h"
#include "serve/http/message.h"
#include "serve/http/tls_context.h"

namespace tessera::serve {

class HttpServer {
 public:
  // Counts open connections in `connections`, and what they hold in `bodies`; all must outlive it.
  HttpServer(const HttpLimits& limits, int threads, std::atomic<std::int64_t>& connections, BodyBudget& bodies,
             AccessLog* access_log = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens on "host:port" (port 0: a free one) and returns the port. Call before start(). `handler` must outlive the
  // server. Each address has HttpLimits::connections places; where they are taken, the connection that has been idle
  // the longest goes, and without one the newcomer is told only of the server's health. Throws Error: io where the
  // address cannot be had, invalid_argument for text that is no address.
  int listen(const std::string& address, HttpHandler& handler, const TlsFiles& tls = {});
  void start();
  // From then on each connection is closed after its next answer, which says so: clients go elsewhere before drain().
  void begin_leaving();
  // Takes no more connections, closes idle ones and waits for the answers of the others, at most so long.
  void drain(double seconds);
  std::int64_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "127.0.0.1:8000" or "[::1]:8000" apart. Throws Error(invalid_argument).
std::pair<std::string, int> split_address(const std::string& address);
bool is_loopback(const std::string& address);

}  // namespace tessera::serve
