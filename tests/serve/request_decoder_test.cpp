#include "serve/protocol/request_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "serve/protocol/failure.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve::request_decoder_test {
namespace {

std::string refusal(std::string_view body, std::optional<std::size_t> json_bytes = std::nullopt) {
  try {
    decode_request(body, json_bytes);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.reason(), Reason::bad_request) << failure.what();
    return failure.what();
  }
  return "accepted";
}

std::string with_input(const std::string& fields) {
  return R"({"inputs":[{"name":"x",)" + fields + "}]}";
}

TEST(RequestDecoder, ReadsTensorsFlatAndNested) {
  const auto flat = decode_request(with_input(R"("datatype":"FP32","shape":[2,2],"data":[1,2.5,-3,4e1])"), {});
  const auto nested = decode_request(with_input(R"("datatype":"FP32","shape":[2,2],"data":[[1,2.5],[-3,40]])"), {});
  ASSERT_EQ(flat.inputs.size(), 1u);
  EXPECT_THAT(flat.inputs[0].tensor.values<float>(), testing::ElementsAre(1, 2.5f, -3, 40));
  EXPECT_TRUE(identical(flat.inputs[0].tensor, nested.inputs[0].tensor));
}

TEST(RequestDecoder, ReadsEveryTypeThatJsonHolds) {
  for (const char* type :
       {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP32", "FP64"}) {
    const auto request =
        decode_request(with_input(std::string(R"("datatype":")") + type + R"(","shape":[2],"data":[1,0])"), {});
    EXPECT_EQ(request.inputs[0].tensor.elements(), 2) << type;
  }
  const auto strings = decode_request(with_input(R"("datatype":"BYTES","shape":[2],"data":["a","\u00e9"])"), {});
  EXPECT_THAT(strings.inputs[0].tensor.values<std::string>(), testing::ElementsAre("a", "\xC3\xA9"));
}

TEST(RequestDecoder, ReadsBytesBehindTheJsonText) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"INT16","shape":[2],"parameters":{"binary_data_size":4}},)"
      R"({"name":"b","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":7}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true,"classification":3}}]})";
  const std::string body = json + std::string("\x01\0\x02\0", 4) + std::string("\x03\0\0\0xyz", 7);
  const InferenceRequest request = decode_request(body, json.size());
  EXPECT_THAT(request.inputs[0].tensor.values<std::int16_t>(), testing::ElementsAre(1, 2));
  EXPECT_THAT(request.inputs[1].tensor.values<std::string>(), testing::ElementsAre("xyz"));
  EXPECT_TRUE(request.outputs[0].binary);
  EXPECT_EQ(request.outputs[0].classes, 3);
  EXPECT_THAT(refusal(body + "!", json.size()), testing::HasSubstr("1 bytes behind its last input"));
  EXPECT_THAT(refusal(body.substr(0, body.size() - 1), json.size()), testing::HasSubstr("6 bytes are left"));
  EXPECT_THAT(refusal(body, body.size() + 1), testing::HasSubstr("bytes are JSON"));
}

TEST(RequestDecoder, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(""), testing::HasSubstr("the request is empty"));
  EXPECT_THAT(refusal("{"), testing::HasSubstr("malformed"));
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("is not an object"));
  EXPECT_THAT(refusal("{}"), testing::HasSubstr("no 'inputs'"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP31","shape":[1],"data":[1])")), testing::HasSubstr("FP31"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP32","shape":[3],"data":[1])")), testing::HasSubstr("expected 3"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"INT8","shape":[1],"data":[128])")), testing::HasSubstr("no INT8"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"INT32","shape":[1],"data":[1.5])")), testing::HasSubstr("no INT32"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP16","shape":[1],"data":[1])")), testing::HasSubstr("binary data"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP32","shape":[-1],"data":[1])")), testing::HasSubstr("dimension -1"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP32","shape":[1])")), testing::HasSubstr("neither"));
}

TEST(RequestDecoder, AsksForNoMemoryThatTheBodyDoesNotJustify) {
  const char* const huge = R"("datatype":"BYTES","shape":[4611686018427387904],"data":["a"])";
  EXPECT_THAT(refusal(with_input(huge)), testing::HasSubstr("more elements than can be counted"));
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP32","shape":[1000000000000],"data":[1])")),
              testing::HasSubstr("expected 1000000000000"));
  const std::string json = with_input(R"("datatype":"BYTES","shape":[1000000000],"parameters":{"binary_data_size":4})");
  EXPECT_THAT(refusal(json + std::string(4, '\0'), json.size()), testing::HasSubstr("too few"));
}

TEST(RequestDecoder, BoundsTheDepth) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(refusal(with_input(R"("datatype":"FP32","shape":[0],"data":)" + deep)),
              testing::HasSubstr("nested more than 64 deep"));
}

TEST(ResponseEncoder, NumbersReadBackAsTheSameBits) {
  const std::vector<float> values{0.1f, 1e-30f, 3.4e38f, -0.0f, 16777217.0f};
  InferenceResponse response{"m", "1", "id\"\n", {{"y", Tensor::from<float>({5}, values)}}};
  const std::string json = encode_response(response, {}).body;
  EXPECT_THAT(json, testing::StartsWith(R"({"id":"id\"\u000a","model_name":"m","model_version":"1")"));
  const std::size_t begin = json.find("\"data\":");
  const auto again = decode_request(
      with_input(R"("datatype":"FP32","shape":[5],)" + json.substr(begin, json.rfind("}]}") - begin)), {});
  EXPECT_TRUE(identical(again.inputs[0].tensor, response.outputs[0].tensor));
}

TEST(ResponseEncoder, TextThatIsNoUtf8IsReplaced) {
  EXPECT_EQ(json_text("a\xFF\xC3\xA9\xED\xA0\x80"), "\"a\\ufffd\xC3\xA9\\ufffd\\ufffd\\ufffd\"");
}

TEST(RequestDecoder, AlignedBinaryDataAreNotCopied) {
  const std::string json =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
      R"({"name":"b","datatype":"BOOL","shape":[1],"parameters":{"binary_data_size":1}}]})";
  const std::size_t whole = json.size() + 9;
  for (const std::size_t shift : {0u, 4u}) {
    const std::size_t before = 64 - json.size() % 64 + shift;
    const std::shared_ptr<char> memory(static_cast<char*>(std::aligned_alloc(64, 1024)), [](char* p) { std::free(p); });
    ASSERT_LE(before + whole, 1024u);
    char* const body = memory.get() + before;
    std::memcpy(body, json.data(), json.size());
    const float values[2] = {3, 4};
    std::memcpy(body + json.size(), values, sizeof(values));
    body[json.size() + 8] = 7;
    const InferenceRequest request = decode_request({body, whole}, json.size(), {}, memory);
    const Tensor& x = request.inputs.at(0).tensor;
    EXPECT_THAT(x.values<float>(), testing::ElementsAre(3, 4));
    EXPECT_EQ(x.raw() == body + json.size(), shift == 0) << "bytes at a multiple of 64 are viewed, others copied";
    EXPECT_THAT(request.inputs.at(1).tensor.values<bool>(), testing::ElementsAre(true));
    EXPECT_EQ(body[json.size() + 8], 7) << "the body itself was changed";
  }
}

}  // namespace
}  // namespace tessera::serve::request_decoder_test
