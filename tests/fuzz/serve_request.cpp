// The body of a request to the server. By the first byte: JSON alone, JSON with bytes behind it (the next two bytes say
// how many are JSON), or a compressed body. Tensors that were read are written and read again.
#include "serve/protocol/content_coding.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"
#include "serve/protocol/response_encoder.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kMostDecompressed = 1 << 20;

void check_round_trip(const serve::InferenceRequest& request) {
  serve::InferenceResponse response{"m", "1", request.id, {}};
  for (const serve::InferenceInput& input : request.inputs) {
    if (!input.tensor.has_value()) continue;
    std::string bytes;
    serve::append_elements(input.tensor, bytes);
    if (!identical(serve::decode_elements(input.name, input.dtype, input.shape, bytes), input.tensor))
      finding("a tensor that was read is written as another one");
    response.outputs.push_back({input.name, input.tensor});
  }
  serve::encode_response(response, request);
}

}  // namespace

void serve_request(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  std::string_view body(reinterpret_cast<const char*>(rest.data()), rest.size());
  try {
    if (tag % 4 == 3) {
      const std::string plain = serve::decode_content(tag % 8 == 3 ? "gzip" : "deflate", body, kMostDecompressed);
      if (static_cast<std::int64_t>(plain.size()) > kMostDecompressed) finding("more was decompressed than is allowed");
      check_round_trip(serve::decode_request(plain, std::nullopt));
    } else if (tag % 4 == 1 && body.size() >= 2) {
      const std::size_t json_bytes = static_cast<unsigned char>(body[0]) * 256u + static_cast<unsigned char>(body[1]);
      check_round_trip(serve::decode_request(body.substr(2), json_bytes));
    } else {
      check_round_trip(serve::decode_request(body, std::nullopt));
    }
  } catch (const serve::Failure&) {
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
