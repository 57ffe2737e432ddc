// A request for inference over gRPC: the bytes of a ModelInferRequest. A tensor that was read is written and read
// again.
#include <inference.pb.h>

#include <algorithm>

#include "serve/grpc/convert.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void serve_grpc(std::span<const std::byte> input) {
  inference::ModelInferRequest message;
  if (!message.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  try {
    const serve::InferenceRequest request = serve::from_message(message);
    if (request.inputs.size() != static_cast<std::size_t>(message.inputs_size())) finding("an input was lost");
    serve::InferenceResponse response{"m", "1", request.id, {}};
    for (const serve::InferenceInput& given : request.inputs) {
      if (given.tensor.has_value()) response.outputs.push_back({given.name, given.tensor});
    }
    inference::ModelInferResponse answer;
    serve::to_message(response, request, answer);
    for (int i = 0; i < answer.outputs_size(); ++i) {
      const serve::OutputTensor& output = response.outputs[static_cast<std::size_t>(i)];
      const bool is_elsewhere = answer.outputs(i).parameters().contains("shared_memory_region");
      if (!is_elsewhere && !identical(serve::decode_elements(output.name, output.tensor.dtype(), output.tensor.shape(),
                                                             answer.raw_output_contents(i)),
                                      output.tensor))
        finding("a tensor that was read is written as another one");
    }
  } catch (const serve::Failure&) {
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
