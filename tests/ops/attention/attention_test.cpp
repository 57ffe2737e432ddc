#include <gtest/gtest.h>

#include <cmath>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::attention_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 4);

// One head of size 1; equal keys, so that weights come from the mask alone.
OpCall means(std::vector<float> values, std::int64_t queries) {
  const auto length = static_cast<std::int64_t>(values.size());
  Tensor q(DType::f32, {1, 1, queries, 1}), k(DType::f32, {1, 1, length, 1});
  std::fill_n(q.mutable_data<float>(), queries, 0.0f);
  std::fill_n(k.mutable_data<float>(), length, 0.0f);
  return {"Attention", {q, k, Tensor::from<float>({1, 1, length, 1}, std::span<const float>(values))}};
}

TEST(Attention, WeighsValuesByScores) {
  const Tensor q = Tensor::from<float>({1, 1, 1, 1}, {1}), k = Tensor::from<float>({1, 1, 2, 1}, {0, std::log(3.0f)});
  const Tensor v = Tensor::from<float>({1, 1, 2, 2}, {0, 4, 8, 4});
  EXPECT_TRUE(close_to(run_op_tensor({"Attention", {q, k, v}}), Tensor::from<float>({1, 1, 1, 2}, {6, 4}), kTolerance));
}

TEST(Attention, CausalStartsAfterThePast) {
  OpCall call = means({3, 6}, 2);
  call.attributes["is_causal"] = std::int64_t{1};
  EXPECT_TRUE(close_to(run_op_tensor(call), Tensor::from<float>({1, 1, 2, 1}, {3, 4.5f}), kTolerance));
  call.inputs.resize(6);
  call.inputs[4] = Tensor::from<float>({1, 1, 1, 1}, {0});
  call.inputs[5] = Tensor::from<float>({1, 1, 1, 1}, {9});
  call.outputs = 3;
  const std::vector<Value> y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<float>({1, 1, 2, 1}, {6, 6}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<float>({1, 1, 3, 1}, {9, 3, 6})));
}

TEST(Attention, MasksForbidAndShortMasksForbidTheRest) {
  OpCall call = means({3, 6, 9}, 1);
  call.inputs.push_back(Tensor::from<bool>({1, 2}, {false, true}));
  EXPECT_TRUE(close_to(run_op_tensor(call), Tensor::from<float>({1, 1, 1, 1}, {6})));
  call.inputs[3] = Tensor::from<bool>({1, 3}, {false, false, false});
  EXPECT_TRUE(close_to(run_op_tensor(call), Tensor::from<float>({1, 1, 1, 1}, {0})));
}

TEST(Attention, LeftOutValuesDoNoHarm) {
  OpCall call = means({3, NAN}, 1);
  call.inputs.resize(7);
  call.inputs[6] = Tensor::from<std::int64_t>({1}, {1});
  EXPECT_TRUE(close_to(run_op_tensor(call), Tensor::from<float>({1, 1, 1, 1}, {3})));
}

TEST(Attention, PackedGroupsShareKeys) {
  // Two query heads of size 1 read one key head.
  const Tensor q = Tensor::from<float>({1, 1, 2}, {0, 1}), k = Tensor::from<float>({1, 2, 1}, {0, std::log(3.0f)});
  const Tensor v = Tensor::from<float>({1, 2, 1}, {0, 8});
  const Tensor y =
      run_op_tensor({"Attention", {q, k, v}, {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{1}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 1, 2}, {4, 6}), kTolerance));
}

TEST(Attention, KeepsSymbols) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType x = ValueType::tensor(DType::f32, Dims{batch, length, 768});
  const auto types =
      infer_op("Attention", {x, x, x}, {{"q_num_heads", std::int64_t{12}}, {"kv_num_heads", std::int64_t{12}}}, 3);
  EXPECT_EQ(types[0], x);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{batch, 12, length, 64}));
}

std::string error_of(const OpCall& call) {
  try {
    run_op(call);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor x(DType::f32, {1, 4, 6}), mask(DType::f32, {4, 5});
  EXPECT_EQ(error_of({"Attention", {x, x, x}}), "attribute 'q_num_heads' is missing; inputs of rank 3 need it");
  const Tensor number(DType::f32, Shape{});
  EXPECT_EQ(error_of({"Attention", {number, number, number}}), "Q, K and V have rank 0, expected 3 or 4");
  ir::Attributes heads{{"q_num_heads", std::int64_t{3}}, {"kv_num_heads", std::int64_t{2}}};
  EXPECT_EQ(error_of({"Attention", {x, x, x}, heads}), "heads of Q have size 2, those of K 3");
  heads["q_num_heads"] = std::int64_t{2};
  EXPECT_EQ(error_of({"Attention", {x, x, x, mask}, heads}),
            "'attn_mask' has shape [4, 5], which does not broadcast to [1, 2, 4, 4]");
  heads["q_num_heads"] = std::int64_t{0};
  EXPECT_EQ(error_of({"Attention", {x, x, x}, heads}), "q_num_heads is 0, expected at least 1");
}

TEST(RotaryEmbedding, TurnsPairs) {
  const Tensor x = Tensor::from<float>({1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor cosines = Tensor::from<float>({2, 2}, {1, 1, 0, 1}), sines = Tensor::from<float>({2, 2}, {0, 0, 1, 0});
  const Tensor position = Tensor::from<std::int64_t>({1, 1}, {1});
  EXPECT_TRUE(close_to(run_op_tensor({"RotaryEmbedding", {x, cosines, sines, position}}),
                       Tensor::from<float>({1, 1, 1, 4}, {-3, 2, 1, 4})));
  EXPECT_TRUE(
      close_to(run_op_tensor({"RotaryEmbedding", {x, cosines, sines, position}, {{"interleaved", std::int64_t{1}}}}),
               Tensor::from<float>({1, 1, 1, 4}, {-2, 1, 3, 4})));
  EXPECT_EQ(error_of({"RotaryEmbedding", {x, cosines, sines, Tensor::from<std::int64_t>({1, 1}, {2})}}),
            "position 2 is outside [0, 2)");
  EXPECT_EQ(error_of({"RotaryEmbedding", {x, cosines, sines, position}, {{"rotary_embedding_dim", std::int64_t{3}}}}),
            "3 of 4 elements of a head cannot be rotated");
}

TEST(LinearAttention, AccumulatesKeysTimesValues) {
  const auto row = [](std::initializer_list<float> values) { return Tensor::from<float>({1, 2, 1}, values); };
  const ir::Attributes linear{
      {"q_num_heads", std::int64_t{1}}, {"kv_num_heads", std::int64_t{1}}, {"update_rule", std::string("linear")}};
  const std::vector<Value> y = run_op({"LinearAttention", {row({1, 2}), row({3, 1}), row({5, 4})}, linear, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), row({15, 38})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({1, 1, 1, 1}, {19})));
  ir::Attributes delta = linear;
  delta["update_rule"] = std::string("delta");
  // The second step corrects what the first holds for its key: 15 + 1 * 0.5 * (4 - 15).
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {"LinearAttention", {row({1, 2}), row({3, 1}), row({5, 4}), Value(), Value(), row({1, 0.5f})}, delta}),
      row({15, 19})));
  EXPECT_EQ(error_of({"LinearAttention", {row({1, 2}), row({3, 1}), row({5, 4})}, delta, 2}),
            "update_rule 'delta' needs the input 'beta'");
}

}  // namespace
}  // namespace tessera::test::attention_test
