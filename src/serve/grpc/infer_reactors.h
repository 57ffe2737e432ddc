// The two ways of asking for inference over gRPC: one request and its answer, and streams of both.
#pragma once

#include <grpcpp/support/server_callback.h>
#include <inference.pb.h>

#include "serve/core/service.h"

namespace tessera::serve {

Credentials credentials_of(const grpc::CallbackServerContext& context);
grpc::Status status_of(const Failure& failure);

// Both delete themselves when gRPC is done with them.
grpc::ServerUnaryReactor* start_infer(Service& service, grpc::CallbackServerContext& context,
                                      const inference::ModelInferRequest& request,
                                      inference::ModelInferResponse& response);
grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* start_stream(
    Service& service, grpc::CallbackServerContext& context);

}  // namespace tessera::serve
