// Bodies of Triton's generate extension (https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/
// protocol/extension_generate.html): a JSON object whose fields are the model's inputs by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "serve/protocol/inference.h"

namespace tessera::serve {

// An input that a request may have.
struct GenerateField {
  TensorInfo info;
  bool is_fed = false;  // whether later steps get an output of the step before them instead
};

struct GenerateRequest {
  // Input tensors have the rank of their TensorInfo, or one dimension more in front for a fed input: the steps of the
  // prompt, at least one, each of the TensorInfo's shape with 1 for open sizes.
  InferenceRequest request;
  std::int64_t most_steps = 0;  // the parameter max_steps; 0: not given
};

// The shape of one step of a fed input: open sizes are 1.
Shape step_shape(const TensorInfo& info);

// Scalars and nested arrays become tensors; missing dimensions in front are 1. The field "parameters" is an object with
// "max_steps" and the parameters of inference requests, "id" is the request's id. Throws Failure(bad_request) for a
// body that is no such object, a field that is no input, an unknown parameter, and data that do not fit.
GenerateRequest decode_generate(std::string_view body, std::span<const GenerateField> fields);

}  // namespace tessera::serve
