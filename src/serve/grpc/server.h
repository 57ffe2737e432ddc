// The Open Inference Protocol over gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve/core/service.h"
#include "serve/http/limits.h"
#include "serve/limits/body_budget.h"

namespace tessera::serve {

struct GrpcOptions {
  std::string address;  // "127.0.0.1:8001"; port 0: a free one
  HttpLimits limits;
  std::string certificate, key, client_authorities;  // PEM files; "": without TLS. Read anew when they change.
  bool require_certificate = false;
  bool reflection = true;         // whether callers may ask what services there are
  double connection_seconds = 0;  // after which a client is asked to connect anew; 0: never
};

class GrpcServer {
 public:
  // Serves at once. The bytes that calls hold count in `bodies`; it and the others must outlive this, and `access_log`
  // may be null. Throws Error(io) where the address cannot be had.
  GrpcServer(Service& service, const GrpcOptions& options, BodyBudget& bodies, AccessLog* access_log);
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
