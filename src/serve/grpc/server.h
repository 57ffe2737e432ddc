// The Open Inference Protocol over gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve/core/service.h"

namespace tessera::serve {

struct GrpcOptions {
  std::string address;                                   // "127.0.0.1:8001"; port 0: a free one
  std::int64_t message_bytes = std::int64_t{256} << 20;  // of one request
  std::int64_t memory_bytes = std::int64_t{1} << 30;     // of all connections together
  std::string certificate, key, client_authorities;      // PEM files; "": without TLS. Read anew when they change.
  bool require_certificate = false;
};

class GrpcServer {
 public:
  // Serves at once. Throws Error(io) where the address cannot be had.
  GrpcServer(Service& service, const GrpcOptions& options);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const;
  // Takes no more requests and waits for the answers of the others, at most so long.
  void drain(double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve
