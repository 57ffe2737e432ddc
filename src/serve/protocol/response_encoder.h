// Answers to inference requests over HTTP.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/protocol/inference.h"

namespace tessera::serve {

struct EncodedResponse {
  std::string body;
  // Bytes of `body` that are JSON, where tensors stand behind them: the header Inference-Header-Content-Length.
  std::optional<std::size_t> json_bytes;
};

// `request` says which outputs are binary; one with a region is described without data. Numbers in JSON are the
// shortest that read back as the same value; what is not finite becomes null, as JSON has no other way to say it.
// Throws Failure(bad_request) for a tensor that JSON cannot hold (FP16, BF16).
EncodedResponse encode_response(const InferenceResponse& response, const InferenceRequest& request);

// Appends an output's element, or a list of all its elements if it has another number of them. Throws as above.
void append_value(const OutputTensor& output, std::string& json);

// Appends a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
void append_json_text(std::string_view text, std::string& json);
std::string json_text(std::string_view text);

}  // namespace tessera::serve
