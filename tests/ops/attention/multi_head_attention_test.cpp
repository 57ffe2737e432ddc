#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::multi_head_attention_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;
using Integer = std::int64_t;

const std::string kAttention = "com.microsoft::MultiHeadAttention",
                  kDecoder = "com.microsoft::DecoderMaskedMultiHeadAttention";
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 8);

Tensor floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::from<float>(shape, std::span<const float>(values.begin(), values.size()));
}
Tensor integers(Shape shape, std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>(shape, std::span<const std::int32_t>(values.begin(), values.size()));
}

// One head of size 1 with queries and keys of 0: the result is the mean of the values 1, 2, 6 that are seen.
OpCall means(std::int64_t queries) {
  Tensor query(DType::f32, {1, queries, 1});
  std::fill_n(query.mutable_data<float>(), queries, 0.0f);
  return {kAttention, {query, floats({1, 3, 1}, {0, 0, 0}), floats({1, 3, 1}, {1, 2, 6})}, {{"num_heads", Integer{1}}}};
}

TEST(MultiHeadAttention, MasksKeys) {
  OpCall call = means(2);
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 2, 1}, {3, 3}), kTolerance));
  call.inputs.resize(5);
  call.inputs[4] = integers({1, 3}, {1, 1, 0});
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 2, 1}, {1.5f, 1.5f}), kTolerance));
  call.inputs[4] = integers({1}, {1});
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 2, 1}, {1, 1}), kTolerance));
  call.inputs[4] = integers({1, 2, 3}, {1, 0, 0, 0, 1, 1});
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 2, 1}, {1, 4}), kTolerance));
}

TEST(MultiHeadAttention, TheLastCausalQuerySeesEveryKey) {
  OpCall call = means(2);
  call.attributes["unidirectional"] = Integer{1};
  call.outputs = 4;
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 2, 1}, {1, 3}), kTolerance));
  const float lowest = std::numeric_limits<float>::lowest();
  EXPECT_TRUE(close_to(y[3].tensor(), floats({1, 1, 2, 3}, {0, lowest, lowest, 0, 0, 0})));
}

TEST(MultiHeadAttention, EveryLayoutGivesTheSame) {
  // Two heads of size 2; q, k and v differ in every element.
  const Tensor q = random_tensor(DType::f32, {1, 3, 2, 2}, 1, -1, 1),
               k = random_tensor(DType::f32, {1, 3, 2, 2}, 2, -1, 1),
               v = random_tensor(DType::f32, {1, 3, 2, 2}, 3, -1, 1);
  const auto element = [](const Tensor& tensor, int i, int h, int e) {
    return tensor.data<float>()[(i * 2 + h) * 2 + e];
  };
  Tensor interleaved(DType::f32, {1, 3, 2, 3, 2}), packed(DType::f32, {1, 3, 12}), pairs(DType::f32, {1, 3, 2, 2, 2}),
      keys(DType::f32, {1, 2, 3, 2}), values(DType::f32, {1, 2, 3, 2});
  for (int i = 0; i < 3; ++i) {
    for (int h = 0; h < 2; ++h) {
      for (int e = 0; e < 2; ++e) {
        const Tensor* const operands[] = {&q, &k, &v};
        for (int part = 0; part < 3; ++part) {
          const float value = element(*operands[part], i, h, e);
          interleaved.mutable_data<float>()[((i * 2 + h) * 3 + part) * 2 + e] = value;
          packed.mutable_data<float>()[(i * 3 + part) * 4 + h * 2 + e] = value;
          if (part > 0) pairs.mutable_data<float>()[((i * 2 + h) * 2 + part - 1) * 2 + e] = value;
        }
        keys.mutable_data<float>()[(h * 3 + i) * 2 + e] = element(k, i, h, e);
        values.mutable_data<float>()[(h * 3 + i) * 2 + e] = element(v, i, h, e);
      }
    }
  }
  const ir::Attributes two_heads{{"num_heads", Integer{2}}};
  const Tensor query = q.reshaped({1, 3, 4});
  const Tensor expected = run_op_tensor({kAttention, {query, k.reshaped({1, 3, 4}), v.reshaped({1, 3, 4})}, two_heads});
  EXPECT_TRUE(close_to(run_op_tensor({kAttention, {interleaved}, two_heads}), expected, kTolerance));
  EXPECT_TRUE(close_to(run_op_tensor({kAttention, {packed}, two_heads}), expected, kTolerance));
  EXPECT_TRUE(close_to(run_op_tensor({kAttention, {query, pairs}, two_heads}), expected, kTolerance));
  EXPECT_TRUE(close_to(run_op_tensor({kAttention, {query, keys, values}, two_heads}), expected, kTolerance));
}

TEST(MultiHeadAttention, BiasIsThatOfTheProjections) {
  OpCall call = means(1);
  call.inputs.push_back(floats({3}, {0, 0, 10}));
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 1, 1}, {13}), kTolerance));
  // Keys and values with their heads first have theirs already.
  call.inputs[1] = floats({1, 1, 3, 1}, {0, 0, 0});
  call.inputs[2] = floats({1, 1, 3, 1}, {1, 2, 6});
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 1, 1}, {3}), kTolerance));
}

TEST(MultiHeadAttention, GrowsThePast) {
  OpCall call = means(1);
  call.inputs.resize(8);
  call.inputs[6] = floats({1, 1, 1, 1}, {0});
  call.inputs[7] = floats({1, 1, 1, 1}, {7});
  call.outputs = 3;
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 1, 1}, {4}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({1, 1, 4, 1}, {7, 1, 2, 6})));
}

// Two rows of one group of beams, one new position each, two positions held.
OpCall beams() {
  const Tensor zero = floats({2, 1, 1}, {0, 0}), keys = floats({2, 1, 4, 1}, {0, 0, 0, 0, 0, 0, 0, 0});
  const Tensor values = floats({2, 1, 4, 1}, {1, 2, 99, 99, 10, 20, 99, 99});
  return {kDecoder,
          {zero, zero, floats({2, 1, 1}, {3, 30}), Value(), Value(), keys, values, integers({1}, {2}),
           integers({1}, {2}), integers({1, 2, 4}, {1, 0, 55, 55, 1, 1, 55, 55})},
          {{"num_heads", Integer{1}}, {"past_present_share_buffer", Integer{1}}},
          3};
}

TEST(DecoderMaskedMultiHeadAttention, FollowsTheBeams) {
  const auto y = run_op(beams());
  // Row 0 saw position 0 on beam 1 and position 1 on beam 0; row 1 saw beam 1 throughout.
  EXPECT_TRUE(close_to(y[0].tensor(), floats({2, 1, 1}, {5, 20}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({2, 1, 4, 1}, {1, 2, 3, 99, 10, 20, 30, 99})));
}

TEST(DecoderMaskedMultiHeadAttention, RefusesAFullBuffer) {
  OpCall call = beams();
  call.inputs[7] = integers({1}, {4});
  expect_error_containing(ErrorKind::failed, "write index 4 with 1 steps is outside a cache of 4",
                          [&] { run_op(call); });
}

TEST(MultiHeadAttention, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length"), past = Dim::symbol("past");
  const ValueType query = ValueType::tensor(DType::f32, Dims{batch, length, 8}),
                  keys = ValueType::tensor(DType::f32, Dims{batch, 5, 8}),
                  state = ValueType::tensor(DType::f32, Dims{batch, 2, past, 4});
  auto types = infer_op(kAttention, {query, keys, keys}, {{"num_heads", Integer{2}}}, 4);
  EXPECT_EQ(types[0], query);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{batch, 2, 5, 4}));
  EXPECT_EQ(types[3], ValueType::tensor(DType::f32, Dims{batch, 2, length, 5}));
  types = infer_op(
      kDecoder,
      {query, query, query, ValueType::tensor(DType::i32, Dims{batch, Dim()}),
       ValueType::tensor(DType::f32, Dims{1, 2, length, Dim()}), state, state, ValueType::tensor(DType::i32, Dims{1})},
      {{"num_heads", Integer{2}}, {"past_present_share_buffer", Integer{1}}}, 2);
  EXPECT_EQ(types[1], state);
}

TEST(MultiHeadAttention, RefusesWhatDoesNotFit) {
  const ValueType three = ValueType::tensor(DType::f32, Shape{1, 3, 8}),
                  other = ValueType::tensor(DType::f32, Shape{1, 3, 6}),
                  heads = ValueType::tensor(DType::f32, Shape{1, 2, 3, 4});
  const ir::Attributes two{{"num_heads", Integer{2}}};
  expect_error(ErrorKind::invalid_model, "'key' has shape [1, 3, 6], expected [1, ?, 8]",
               [&] { infer_op(kAttention, {three, other, other}, two); });
  expect_error(ErrorKind::invalid_model, "'value' is missing; a key of rank 3 needs it",
               [&] { infer_op(kAttention, {three, three}, two); });
  expect_error(ErrorKind::invalid_model, "'value' has shape [1, 3, 8], expected rank 4",
               [&] { infer_op(kAttention, {three, heads, three}, two); });
  expect_error(ErrorKind::invalid_model, "the hidden size 8 of 'query' does not divide into 3 heads",
               [&] { infer_op(kAttention, {three, three, three}, {{"num_heads", Integer{3}}}); });
}

}  // namespace
}  // namespace tessera::test::multi_head_attention_test
