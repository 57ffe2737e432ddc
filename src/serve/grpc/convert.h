// Messages of the gRPC protocol to requests and answers, and back.
#pragma once

#include <inference.pb.h>

#include "serve/core/models/servable.h"
#include "serve/core/service.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {

// Throws Failure(bad_request).
InferenceRequest from_message(const inference::ModelInferRequest& message);
// Tensors go to raw_output_contents, but for those that the request wants in shared memory.
void to_message(const InferenceResponse& response, const InferenceRequest& request,
                inference::ModelInferResponse& message);
// Returns the bytes of such a ModelInferResponse, or of a ModelStreamInferResponse that holds it; elements are copied
// once. Throws Failure(too_large) for 2 GiB or more, which would end the process within gRPC.
std::string encode_answer(const InferenceResponse& response, const InferenceRequest& request);
std::string encode_stream_answer(const InferenceResponse& response, const InferenceRequest& request);
void to_message(const ServableInfo& info, const std::vector<std::string>& versions,
                inference::ModelMetadataResponse& message);
void to_message(const Servable& servable, inference::ModelStatistics& message);

}  // namespace tessera::serve
