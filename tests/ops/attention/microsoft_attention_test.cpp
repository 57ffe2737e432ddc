#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::microsoft_attention_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kAttention = "com.microsoft::Attention", kQuantised = "com.microsoft::QAttention";
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 8);
using Integer = std::int64_t;

Tensor column(std::initializer_list<float> values) {
  return Tensor::from<float>({1, static_cast<std::int64_t>(values.size()), 1},
                             std::span<const float>(values.begin(), values.size()));
}
Tensor mask(Shape shape, std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>(shape, std::span<const std::int32_t>(values.begin(), values.size()));
}

// One head of size 1 with values 1, 2, 6 and queries and keys of 0: the result is the mean of what is seen.
OpCall means() {
  return {kAttention, {column({1, 2, 6}), Tensor::from<float>({1, 3}, {0, 0, 1})}, {{"num_heads", Integer{1}}}};
}

TEST(MicrosoftAttention, ProjectsAndAttends) {
  OpCall call = means();
  EXPECT_TRUE(close_to(run_op_tensor(call), column({3, 3, 3}), kTolerance));
  call.inputs.push_back(Tensor::from<float>({3}, {0, 0, 10}));
  EXPECT_TRUE(close_to(run_op_tensor(call), column({13, 13, 13}), kTolerance));
  call.attributes["unidirectional"] = Integer{1};
  EXPECT_TRUE(close_to(run_op_tensor(call), column({11, 11.5f, 13}), kTolerance));
}

TEST(MicrosoftAttention, TakesMasksOfEveryForm) {
  const std::vector<std::pair<Tensor, Tensor>> cases{
      {mask({1}, {2}), column({1.5f, 1.5f, 1.5f})},                       // ends
      {mask({2}, {3, 1}), column({4, 4, 4})},                             // ends and beginnings
      {mask({5}, {1, 9, 9, 9, 9}), column({1, 1, 1})},                    // cumulated lengths
      {mask({1, 3}, {1, 0, 1}), column({3.5f, 3.5f, 3.5f})},              // keys
      {mask({1, 1}, {0}), column({3, 3, 3})},                             // says nothing
      {mask({1, 3, 3}, {1, 0, 0, 0, 1, 0, 0, 1, 1}), column({1, 2, 4})},  // queries and keys
      {mask({1, 1, 4, 4}, {0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1}),
       column({2, 1.5f, 6})},  // of the longest length
  };
  for (const auto& [given, expected] : cases) {
    OpCall call = means();
    call.inputs.resize(4);
    call.inputs[3] = given;
    EXPECT_TRUE(close_to(run_op_tensor(call), expected, kTolerance)) << to_string(given.shape());
  }
}

TEST(MicrosoftAttention, AddsABiasToTheScores) {
  OpCall call = means();
  call.inputs.resize(6);
  const float ln3 = std::log(3.0f);
  call.inputs[5] = Tensor::from<float>({1, 1, 3, 3}, {ln3, 0, 0, 0, ln3, 0, 0, 0, ln3});
  EXPECT_TRUE(close_to(run_op_tensor(call), column({11.0f / 5, 13.0f / 5, 21.0f / 5}), kTolerance));
}

TEST(MicrosoftAttention, ThePastComesFirst) {
  OpCall call = means();
  call.inputs.resize(5);
  call.inputs[4] = Tensor::from<float>({2, 1, 1, 1, 1}, {0, 7});
  call.attributes["unidirectional"] = Integer{1};
  call.outputs = 2;
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), column({4, 10.0f / 3, 4}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({2, 1, 1, 4, 1}, {0, 0, 0, 0, 7, 1, 2, 6})));
}

TEST(MicrosoftAttention, PastAndPresentMayShareABuffer) {
  OpCall call = means();
  call.inputs.resize(7);
  call.inputs[4] = Tensor::from<float>({2, 1, 1, 5, 1}, {0, 0, 0, 0, 0, 7, 99, 99, 99, 99});
  call.inputs[6] = mask({1}, {1});
  call.attributes["unidirectional"] = Integer{1};
  call.attributes["past_present_share_buffer"] = Integer{1};
  call.outputs = 2;
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), column({4, 10.0f / 3, 4}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({2, 1, 1, 5, 1}, {0, 0, 0, 0, 0, 7, 1, 2, 6, 99})));
}

TEST(MicrosoftAttention, RotatesQueriesAndKeysByTheirPositions) {
  // Queries and keys [x, 0] with x = 1, values [0, 0] and [5, 0]: scores are the cosines of the distance, over sqrt(2).
  const Tensor x = Tensor::from<float>({1, 2, 2}, {1, 0, 1, 5});
  Tensor weights(DType::f32, {2, 6});
  std::fill_n(weights.mutable_data<float>(), 12, 0.0f);
  for (const int place : {0, 2, 6 + 4}) weights.mutable_data<float>()[place] = 1;
  const OpCall call{kAttention, {x, weights}, {{"num_heads", Integer{1}}, {"do_rotary", Integer{1}}}};
  const float near = std::exp(1 / std::sqrt(2.0f)), far = std::exp(std::cos(1.0f) / std::sqrt(2.0f));
  EXPECT_TRUE(close_to(run_op_tensor(call),
                       Tensor::from<float>({1, 2, 2}, {5 * far / (near + far), 0, 5 * near / (near + far), 0}),
                       kTolerance));
}

TEST(MicrosoftAttention, ValuesMayHaveAnotherSize) {
  OpCall call = means();
  call.inputs[1] = Tensor::from<float>({1, 4}, {0, 0, 1, -1});
  call.attributes["qkv_hidden_sizes"] = std::vector<Integer>{1, 1, 2};
  EXPECT_TRUE(close_to(run_op_tensor(call), Tensor::from<float>({1, 3, 2}, {3, -3, 3, -3, 3, -3}), kTolerance));
}

TEST(MicrosoftAttention, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType x = ValueType::tensor(DType::f32, Dims{batch, length, 6}),
                  weights = ValueType::tensor(DType::f32, Dims{6, 24}), bias = ValueType::tensor(DType::f32, Dims{24});
  const auto types = infer_op(kAttention, {x, weights, bias}, {{"num_heads", Integer{2}}}, 2);
  EXPECT_EQ(types[0], ValueType::tensor(DType::f32, Dims{batch, length, 8}));
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{2, batch, 2, length, 4}));
}

TEST(MicrosoftAttention, RefusesWhatDoesNotFit) {
  const auto with = [](auto change) {
    OpCall call = means();
    change(call);
    return [call] { run_op(call); };
  };
  expect_error(ErrorKind::invalid_model, "a hidden size of 1 does not divide into 2 heads",
               with([](OpCall& call) { call.attributes["num_heads"] = Integer{2}; }));
  expect_error(ErrorKind::invalid_model, "qkv_hidden_sizes is [1, 1, 2], but the weights have 3 columns",
               with([](OpCall& call) { call.attributes["qkv_hidden_sizes"] = std::vector<Integer>{1, 1, 2}; }));
  expect_error(ErrorKind::invalid_model, "past_present_share_buffer needs inputs 'past' and 'past_sequence_length'",
               with([](OpCall& call) { call.attributes["past_present_share_buffer"] = Integer{1}; }));
  expect_error(ErrorKind::invalid_model,
               "the mask has shape [1, 2], which does not fit a batch of 1, 3 queries and 3 keys",
               with([](OpCall& call) {
                 call.inputs.resize(4);
                 call.inputs[3] = mask({1, 2}, {1, 1});
               }));
}

TEST(QAttention, DequantisesTheProjection) {
  // x = 0.5 ([12, 14, 22] - 10) = 1, 2, 6; the columns of the weights are 0, 0 and 0.25 (6 - 2) = 1.
  const Tensor x = Tensor::from<std::uint8_t>({1, 3, 1}, {12, 14, 22}),
               weights = Tensor::from<std::int8_t>({1, 3}, {3, 4, 6});
  const Tensor bias = Tensor::from<float>({3}, {0, 0, 100}), scale = Tensor::from<float>({3}, {1, 1, 0.25f});
  const Tensor zeros = Tensor::from<std::int8_t>({3}, {3, 4, 2});
  const OpCall call{
      kQuantised,
      {x, weights, bias, Tensor::scalar(0.5f), scale, mask({1}, {2}), Tensor::scalar(std::uint8_t{10}), zeros},
      {{"num_heads", Integer{1}}}};
  EXPECT_TRUE(close_to(run_op_tensor(call), column({101.5f, 101.5f, 101.5f}), kTolerance));
}

}  // namespace
}  // namespace tessera::test::microsoft_attention_test
