// The two ways of asking for inference over gRPC: one request and its answer, and streams of both.
#pragma once

#include <grpcpp/support/server_callback.h>
#include <inference.pb.h>

#include <mutex>
#include <set>

#include "serve/core/service.h"

namespace tessera::serve {

Credentials credentials_of(const grpc::CallbackServerContext& context);
grpc::Status status_of(const Failure& failure);

// A stream that may be told to end.
class EndingStream {
 public:
  virtual ~EndingStream() = default;
  // It takes no more requests, and ends when those that it has are answered. By any thread.
  virtual void end() = 0;
};

// The streams of a server that have not ended: the client of one that is idle need not say that it is over.
// Thread-safe.
class OpenStreams {
 public:
  void add(EndingStream& stream);
  void remove(EndingStream& stream);
  // Ends all of them, and those that come later.
  void end();

 private:
  std::mutex mutex_;
  std::set<EndingStream*> streams_;
  bool is_ended_ = false;
};

// Both delete themselves when gRPC is done with them. `streams` must outlive the reactor.
grpc::ServerUnaryReactor* start_infer(Service& service, grpc::CallbackServerContext& context,
                                      const inference::ModelInferRequest& request,
                                      inference::ModelInferResponse& response);
grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* start_stream(
    Service& service, grpc::CallbackServerContext& context, OpenStreams& streams);

}  // namespace tessera::serve
