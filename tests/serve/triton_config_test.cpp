#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <sstream>

#include "serve/core/config/field_table.h"
#include "serve/core/config/tensor_reshape.h"
#include "serve/core/models/served_model.h"
#include "support/expect_error.h"
#include "tessera/graph.h"

namespace tessera::serve::triton_config_test {
namespace {

using google::protobuf::Descriptor;
using test::expect_error_containing;

// All fields of a message that rules are wanted for: those that a rule names, or that lie in no message with a rule.
void collect(const Descriptor& message, const std::string& prefix, std::vector<std::string>& missing) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const std::string path = prefix + field.name();
    if (std::ranges::find(field_rules(), path, &FieldRule::path) != field_rules().end()) continue;
    if (field.message_type() != nullptr && !field.is_map()) collect(*field.message_type(), path + ".", missing);
    else missing.push_back(path);
  }
}

TEST(TritonConfig, EveryFieldHasARuleAndStandsInTheDocumentation) {
  std::vector<std::string> missing;
  collect(*inference::ModelConfig::descriptor(), "", missing);
  EXPECT_THAT(missing, testing::IsEmpty());
  std::ifstream file(TESSERA_DOCS "/serving_config.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  for (const FieldRule& rule : field_rules()) {
    const char* const use = rule.use == FieldUse::understood ? "understood"
                            : rule.use == FieldUse::ignored  ? "ignored"
                                                             : "refused";
    EXPECT_THAT(page, testing::HasSubstr(fmt::format("| `{}` | {}", rule.path, use)));
    EXPECT_EQ(rule.reason.empty(), rule.use == FieldUse::understood) << rule.path;
  }
}

TEST(TritonConfig, UnknownFieldsAreRefusedByNameAndLine) {
  expect_error_containing(ErrorKind::invalid_argument, "m: line 2", [] {
    parse_pbtxt("max_batch_size: 4\ndynamic_batchin { max_queue_delay_microseconds: 100 }", "m");
  });
  expect_error_containing(ErrorKind::invalid_argument,
                          "ModelConfig has no field 'dynamic_batchin'; did you mean 'dynamic_batching'?",
                          [] { parse_pbtxt("dynamic_batchin { max_queue_delay_microseconds: 100 }", "m"); });
  expect_error_containing(ErrorKind::invalid_argument, "did you mean 'max_batch_size'?",
                          [] { parse_pbtxt("max_batchsize: 3", "m"); });
  expect_error_containing(
      ErrorKind::invalid_argument,
      "ModelDynamicBatching has no field 'max_queue_delay_microsecs'; did you mean 'max_queue_delay_microseconds'?",
      [] { parse_pbtxt("dynamic_batching { max_queue_delay_microsecs: 1 }", "m"); });
  expect_error_containing(ErrorKind::invalid_argument, "has no field 'wholly_other'",
                          [] { parse_pbtxt("wholly_other: 1", "m"); });
}

TEST(TritonConfig, WhatIsNotSupportedIsRefusedByNameAndLine) {
  const auto refused = [](const std::string& text, const std::string& message) {
    SCOPED_TRACE(text);
    expect_error_containing(ErrorKind::unsupported, message, [&] { parse_pbtxt(text, "m"); });
  };
  refused("max_batch_size: 2\nsequence_batching {\n oldest { preserve_ordering: true } }",
          "m sets sequence_batching.oldest.preserve_ordering (line 3), which is not supported: answers are sent");
  refused("dynamic_batching { preserve_ordering: true }", "dynamic_batching.preserve_ordering (line 1)");
  refused("input { name: \"a\" }\ninput { name: \"x\" optional: true }", "input.optional (line 2)");
  refused("input { name: \"x\" allow_ragged_batch: true }", "input.allow_ragged_batch");
  refused("dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 2 } } }", "priority_queue_policy");
  refused("batch_input { kind: BATCH_ELEMENT_COUNT }", "batch_input");
  refused("instance_group { gpus: [0] }", "instance_group.gpus");
  refused("model_transaction_policy { decoupled: true }", "model_transaction_policy.decoupled");
  refused("model_operations { op_library_filename: \"a.so\" }", "model_operations");
  // What a file sets to its default is as if it were not there.
  EXPECT_NO_THROW(
      parse_pbtxt("model_transaction_policy { decoupled: false } input { name: \"x\" optional: false } "
                  "dynamic_batching { default_queue_policy { timeout_action: REJECT } }",
                  "m"));
}

TEST(TritonConfig, WhatHasNoEffectIsNamed) {
  const ModelSettings settings = parse_pbtxt(
      "max_batch_size: 2\noptimization { cuda { graphs: true } }\nmetric_tags { key: \"a\" value: \"b\" }\n"
      "parameters { key: \"intra_op_thread_count\" value { string_value: \"2\" } }\n"
      "parameters { key: \"weight\" value { string_value: \"2\" } }",
      "m");
  std::vector<std::string> fields;
  for (const auto& ignored : settings.ignored) fields.push_back(ignored.field);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("optimization (line 2)", "metric_tags (line 3)",
                                                    "parameters['intra_op_thread_count']"));
}

TEST(TritonConfig, OtherBackendsAreRefusedByName) {
  expect_error_containing(ErrorKind::unsupported, "m asks for the backend 'python'",
                          [] { parse_pbtxt("backend: \"python\"", "m"); });
  expect_error_containing(ErrorKind::unsupported, "m asks for the platform 'tensorrt_plan'",
                          [] { parse_pbtxt("platform: \"tensorrt_plan\"", "m"); });
  for (const char* ours :
       {"backend: \"onnxruntime\"", "platform: \"onnxruntime_onnx\"", "backend: \"tessera_picture\""})
    EXPECT_NO_THROW(parse_pbtxt(ours, "m")) << ours;
}

TEST(TritonConfig, WhetherBatchingIsGivenIsReadFromTheMessage) {
  EXPECT_FALSE(parse_pbtxt("# max_batch_size is left to the server", "m").batching_is_given);
  EXPECT_FALSE(parse_pbtxt("default_model_filename: \"max_batch_size: 1\"", "m").batching_is_given);
  EXPECT_TRUE(parse_pbtxt("max_batch_size: 0", "m").batching_is_given);
  EXPECT_TRUE(parse_config_json(R"({"max_batch_size": 0})", "m").batching_is_given);
  EXPECT_FALSE(
      parse_config_json(R"({"parameters": {"max_batch_size": {"string_value": "1"}}})", "m").batching_is_given);
}

TEST(TritonConfig, JsonIsReadAsStrictly) {
  EXPECT_EQ(parse_config_json(R"({"max_batch_size": 3, "dynamic_batching": {"max_queue_delay_microseconds": 7}})", "m")
                .delay_ns(),
            7000);
  expect_error_containing(ErrorKind::invalid_argument, "max_batchsize",
                          [] { parse_config_json(R"({"max_batchsize": 3})", "m"); });
  expect_error_containing(ErrorKind::unsupported, "dynamic_batching.preserve_ordering",
                          [] { parse_config_json(R"({"dynamic_batching": {"preserve_ordering": true}})", "m"); });
  expect_error_containing(ErrorKind::invalid_argument, "m:", [] { parse_config_json("[", "m"); });
}

// y = x + 1, x of [batch, 1, 2, length]
Model plus_one() {
  NetBuilder net("plus");
  const NetValue x = net.input("x", DType::f32, {"batch", std::int64_t{1}, std::int64_t{2}, "length"});
  net.output("y", net.add("Add", {x, net.constant(Tensor::scalar(1.0f))}));
  return net.build();
}

ModelSettings named(const std::string& text) {
  return with_name(parse_pbtxt(text, "m"), "m");
}

TEST(TritonConfig, DimsThatContradictTheModelAreRefused) {
  Arbiter arbiter;
  const auto load = [&](const std::string& text) { ServedModel(arbiter, plus_one(), "1", named(text), {}); };
  for (const char* dims : {"3, 99", "1, 3, 4", "-1, 2, 4", "1, 2"}) {
    SCOPED_TRACE(dims);
    expect_error_containing(ErrorKind::invalid_argument, "but the model's has [1, 2, -1]",
                            [&] { load(fmt::format("max_batch_size: 4 input {{ name: \"x\" dims: [{}] }}", dims)); });
    expect_error_containing(ErrorKind::invalid_argument, "'y' has the dims",
                            [&] { load(fmt::format("max_batch_size: 4 output {{ name: \"y\" dims: [{}] }}", dims)); });
  }
  // Without a batch, the first dimension is the model's.
  expect_error_containing(ErrorKind::invalid_argument, "but the model's has [-1, 1, 2, -1]",
                          [&] { load("max_batch_size: 0 input { name: \"x\" dims: [1, 2, 5] }"); });
}

TEST(TritonConfig, DimsMayCloseWhatTheModelLeavesOpen) {
  Arbiter arbiter;
  ServedModel model(arbiter, plus_one(), "1", named("max_batch_size: 4 input { name: \"x\" dims: [1, 2, 5] }"), {});
  EXPECT_EQ(model.info().inputs.at(0).shape, (Shape{-1, 1, 2, 5}));
  auto call = std::make_shared<Call>();
  const Tensor x = Tensor::from<float>({1, 1, 2, 3}, std::vector<float>(6));
  call->request.inputs.push_back({"x", DType::f32, x.shape(), x, {}});
  EXPECT_THROW(model.submit(call), Failure);
}

TEST(TritonConfig, TensorsAreReshapedOnTheirWayInAndOut) {
  Arbiter arbiter;
  const std::string text =
      "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 100000 preferred_batch_size: 3 } "
      "input { name: \"x\" dims: [2, -1] reshape { shape: [1, 2, -1] } } "
      "output { name: \"y\" dims: [-1, 2] reshape { shape: [1, 2, -1] } }";
  expect_error_containing(ErrorKind::invalid_argument, "cannot be reshaped", [&] {
    ServedModel(arbiter, plus_one(), "1", named(text), {});  // -1 · 2 is not 2 · -1
  });
  ServedModel model(arbiter, plus_one(), "1",
                    named("max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 100000 "
                          "preferred_batch_size: 3 } "
                          "input { name: \"x\" dims: [2, -1] reshape { shape: [1, 2, -1] } } "
                          "output { name: \"y\" dims: [1, 1, 2, -1] reshape { shape: [1, 2, -1] } }"),
                    {});
  EXPECT_EQ(model.info().inputs.at(0).shape, (Shape{-1, 2, -1}));
  EXPECT_EQ(model.info().outputs.at(0).shape, (Shape{-1, 1, 1, 2, -1}));
  std::promise<Outcome> first, second;
  const auto submit = [&](std::int64_t rows, float value, std::promise<Outcome>& promise) {
    auto call = std::make_shared<Call>();
    call->arrival_ns = Clock::steady().now_ns();
    const Tensor x = Tensor::from<float>({rows, 2, 3}, std::vector<float>(static_cast<std::size_t>(rows) * 6, value));
    call->request.inputs.push_back({"x", DType::f32, x.shape(), x, {}});
    call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
    ASSERT_TRUE(model.submit(call));
  };
  submit(1, 1, first);
  submit(2, 5, second);
  const auto check = [](std::promise<Outcome>& promise, std::int64_t rows, float value) {
    const Outcome outcome = promise.get_future().get();
    ASSERT_FALSE(outcome.failure) << outcome.failure->what();
    const Tensor& y = outcome.response.outputs.at(0).tensor;
    EXPECT_EQ(y.shape(), (Shape{rows, 1, 1, 2, 3}));
    EXPECT_THAT(y.values<float>(), testing::Each(value));
  };
  check(first, 1, 2);
  check(second, 2, 6);
  EXPECT_EQ(model.statistics().executions, 1u);
}

TEST(TritonConfig, AfterTheDefaultTimeoutARequestIsRejectedOrDelayed) {
  Arbiter arbiter;
  for (const bool delays : {false, true}) {
    ServedModel model(
        arbiter, plus_one(), "1",
        named(fmt::format("max_batch_size: 4 dynamic_batching {{ max_queue_delay_microseconds: 20000 "
                          "default_queue_policy {{ default_timeout_microseconds: 1 timeout_action: {} }} }}",
                          delays ? "DELAY" : "REJECT")),
        {});
    std::array<std::promise<Outcome>, 2> promises;
    const auto submit = [&](std::promise<Outcome>& promise) {
      auto call = std::make_shared<Call>();
      call->arrival_ns = Clock::steady().now_ns();
      const Tensor x = Tensor::from<float>({1, 1, 2, 3}, std::vector<float>(6));
      call->request.inputs.push_back({"x", DType::f32, x.shape(), x, {}});
      call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
      return model.submit(call);
    };
    EXPECT_TRUE(submit(promises[0]));  // it waits for others
    if (delays) {
      EXPECT_TRUE(submit(promises[1]));
      EXPECT_FALSE(promises[1].get_future().get().failure);
    } else {
      EXPECT_THROW(submit(promises[1]), Failure);
    }
    EXPECT_FALSE(promises[0].get_future().get().failure);
  }
}

TEST(TensorReshape, OpenSizesKeepTheirOrder) {
  const TensorReshape reshape({-1, 2, -1, 6}, {-1, 1, 2, -1, 2, 3}, "x");
  EXPECT_EQ(reshape.apply(Tensor(DType::f32, {5, 2, 7, 6}), false).shape(), (Shape{5, 1, 2, 7, 2, 3}));
  EXPECT_EQ(TensorReshape({1}, {}, "x").apply(Tensor(DType::f32, {4, 1}), true).shape(), (Shape{4}));
  test::expect_error_containing(ErrorKind::failed, "expected [-1, 2, -1, 6]",
                                [&] { reshape.apply(Tensor(DType::f32, {5, 3, 7, 6}), false); });
  test::expect_error_containing(ErrorKind::invalid_argument, "'x' of the shape [4] cannot be reshaped to [5]",
                                [] { TensorReshape({4}, {5}, "x"); });
}

}  // namespace
}  // namespace tessera::serve::triton_config_test
