#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::group_query_attention_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;
using Integer = std::int64_t;

const std::string kOp = "com.microsoft::GroupQueryAttention";
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 8);

Tensor floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::from<float>(shape, std::span<const float>(values.begin(), values.size()));
}
Tensor integers(std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>({static_cast<std::int64_t>(values.size())},
                                    std::span<const std::int32_t>(values.begin(), values.size()));
}

// A prompt of three positions, one key head of size 1, queries and keys of 0: the result is the mean of the values 2,
// 4, 9 seen.
OpCall prompt() {
  return {kOp,
          {floats({1, 3, 1}, {0, 0, 0}), floats({1, 3, 1}, {0, 0, 0}), floats({1, 3, 1}, {2, 4, 9}), Value(), Value(),
           integers({2}), integers({3})},
          {{"num_heads", Integer{1}}, {"kv_num_heads", Integer{1}}},
          3};
}

TEST(GroupQueryAttention, IsCausal) {
  OpCall call = prompt();
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 3, 1}, {2, 3, 5}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({1, 1, 3, 1}, {2, 4, 9})));
  call.attributes["causal"] = Integer{0};
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 3, 1}, {5, 5, 5}), kTolerance));
  call = prompt();
  call.attributes["local_window_size"] = Integer{2};
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 3, 1}, {2, 3, 6.5f}), kTolerance));
}

TEST(GroupQueryAttention, SinksTakeAShare) {
  OpCall call = prompt();
  call.attributes["smooth_softmax"] = Integer{1};
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 3, 1}, {1, 2, 15.0f / 4}), kTolerance));
  call.inputs.resize(12);
  call.inputs[11] = floats({1}, {std::log(2.0f)});
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 3, 1}, {2.0f / 3, 6.0f / 4, 3}), kTolerance));
}

TEST(GroupQueryAttention, HeadsShareKeysInGroups) {
  // Packed queries of four heads, keys and values of two: heads 0 and 1 read the first value, 2 and 3 the second.
  const OpCall call{
      kOp,
      {floats({1, 1, 8}, {0, 0, 0, 0, 0, 0, 3, 5}), Value(), Value(), Value(), Value(), integers({0}), integers({1})},
      {{"num_heads", Integer{4}}, {"kv_num_heads", Integer{2}}}};
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 1, 4}, {3, 3, 5, 5}), kTolerance));
}

// One more position for two rows, which hold 2 and 1 positions of a buffer of 4.
OpCall step() {
  return {kOp,
          {floats({2, 1, 1}, {0, 0}), floats({2, 1, 1}, {0, 0}), floats({2, 1, 1}, {9, 10}),
           floats({2, 1, 4, 1}, {0, 0, 0, 0, 0, 0, 0, 0}), floats({2, 1, 4, 1}, {2, 4, 77, 77, 6, 77, 77, 77}),
           integers({2, 1}), integers({3})},
          {{"num_heads", Integer{1}}, {"kv_num_heads", Integer{1}}},
          3};
}

TEST(GroupQueryAttention, EveryRowHasItsOwnLength) {
  const auto y = run_op(step());
  EXPECT_TRUE(close_to(y[0].tensor(), floats({2, 1, 1}, {5, 8}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({2, 1, 4, 1}, {2, 4, 9, 0, 6, 10, 0, 0})));
}

TEST(GroupQueryAttention, ThePresentGrowsWhenThePastIsFull) {
  OpCall call = step();
  call.inputs[5] = integers({4, 1});
  call.inputs[6] = integers({5});
  const auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({2, 1, 1}, {(2 + 4 + 77 + 77 + 9) / 5.0f, 8}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({2, 1, 5, 1}, {2, 4, 77, 77, 9, 6, 10, 0, 0, 0})));
}

TEST(GroupQueryAttention, ShowsScoresAndWeights) {
  OpCall call = prompt();
  call.inputs.resize(11);
  call.inputs[10] = floats({1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 2, 2, 2});
  call.attributes["qk_output"] = Integer{1};
  call.outputs = 4;
  EXPECT_TRUE(close_to(run_op(call)[3].tensor(), floats({1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 2, 2, 2}), kTolerance));
  call.attributes["qk_output"] = Integer{2};
  const float third = 1.0f / 3;
  EXPECT_TRUE(close_to(run_op(call)[3].tensor(), floats({1, 1, 3, 3}, {1, 0, 0, 0.5f, 0.5f, 0, third, third, third}),
                       kTolerance));
}

TEST(GroupQueryAttention, NormalisesHeadsBeforeTheyMeet) {
  // Query and keys of size 2 become [sqrt(2), 0] and [sqrt(2) w, 0]: scores 2 w / sqrt(2), whatever their length was.
  const OpCall call{kOp,
                    {floats({1, 2, 2}, {5, 0, 7, 0}), floats({1, 2, 2}, {3, 0, -8, 0}), floats({1, 2, 2}, {0, 0, 1, 1}),
                     Value(), Value(), integers({1}), integers({2}), Value(), Value(), Value(), Value(), Value(),
                     Value(), Value(), floats({2}, {1, 1}), floats({2}, {0.5f, 1})},
                    {{"num_heads", Integer{1}}, {"kv_num_heads", Integer{1}}}};
  const float score = 1 / std::sqrt(2.0f), weight = std::exp(-score) / (std::exp(score) + std::exp(-score));
  EXPECT_TRUE(close_to(run_op_tensor(call), floats({1, 2, 2}, {0, 0, weight, weight}), Tolerance{1e-5, 1e-6}));
}

TEST(GroupQueryAttention, RotatesByThePositionOfTheCache) {
  // The query is position 2 behind two held ones; its row of the caches is a quarter turn. Keys are [1, 0] and turn to
  // [0, 1].
  OpCall call{
      kOp,
      {floats({1, 1, 2}, {1, 0}), floats({1, 1, 2}, {1, 0}), floats({1, 1, 2}, {6, 6}),
       floats({1, 1, 2, 2}, {0, 1, 1, 0}), floats({1, 1, 2, 2}, {3, 3, 1, 1}), integers({2}), integers({3}),
       floats({3, 1}, {1, 1, 0}), floats({3, 1}, {0, 0, 1})},
      {{"num_heads", Integer{1}}, {"kv_num_heads", Integer{1}}, {"do_rotary", Integer{1}}, {"scale", std::log(2.0f)}},
      2};
  const auto y = run_op(call);
  // Scores: ln 2 with the held [0, 1], 0 with [1, 0], ln 2 with itself.
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 1, 2}, {19.0f / 5, 19.0f / 5}), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), floats({1, 1, 3, 2}, {0, 1, 1, 0, 0, 1}), kTolerance));
}

// Values [1, 2.4] and [-300, 1] in steps of 0.5 and 2, as the cache stores them.
OpCall coded(std::int64_t bits, DType type) {
  OpCall call{kOp,
              {floats({1, 2, 2}, {0, 0, 0, 0}), floats({1, 2, 2}, {0, 0, 0, 0}), floats({1, 2, 2}, {1, 2.4f, -300, 1}),
               Tensor(type, {1, 1, 0, bits == 8 ? 2 : 1}), Tensor(type, {1, 1, 0, bits == 8 ? 2 : 1}), integers({1}),
               integers({2}), Value(), Value(), Value(), Value(), Value(), floats({1, 1, 1, 2}, {1, 1}),
               floats({1, 1, 1, 2}, {0.5f, 2})},
              {{"num_heads", Integer{1}}, {"kv_num_heads", Integer{1}}, {"kv_cache_bit_width", bits}},
              3};
  call.attributes["k_quant_type"] = call.attributes["v_quant_type"] = std::string("PER_CHANNEL");
  return call;
}

TEST(GroupQueryAttention, CachesMayBeCoded) {
  auto y = run_op(coded(8, DType::i8));
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<std::int8_t>({1, 1, 2, 2}, {2, 1, -128, 0})));
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 2, 2}, {1, 2, (1 - 64) / 2.0f, 1}), kTolerance));
  y = run_op(coded(4, DType::u8));
  EXPECT_TRUE(close_to(y[2].tensor(), Tensor::from<std::uint8_t>({1, 1, 2, 1}, {(9 << 4) + 10, (8 << 4) + 0})));
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 2, 2}, {1, 2, (1 - 4) / 2.0f, 1}), kTolerance));
}

TEST(GroupQueryAttention, CachesMaySlide) {
  // Windows of 2 over a buffer of 3: room is made by dropping blocks of two.
  OpCall call{kOp,
              {floats({1, 1, 1}, {0}), floats({1, 1, 1}, {0}), floats({1, 1, 1}, {40}), floats({1, 1, 3, 1}, {0, 0, 0}),
               floats({1, 1, 3, 1}, {10, 20, 30}), integers({4}), integers({5})},
              {{"num_heads", Integer{1}},
               {"kv_num_heads", Integer{1}},
               {"local_window_size", Integer{2}},
               {"sliding_window_cache", Integer{1}}},
              3};
  // 4 positions before, one beyond the buffer: one block was dropped and two positions are held. Then there are three.
  auto y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 1, 1}, {30}), kTolerance));  // of 20 and 40; 30 is not held
  EXPECT_TRUE(close_to(y[2].tensor(), floats({1, 1, 3, 1}, {10, 20, 40})));
  // 5 before: three are held. With 6, a block more goes, and two are left.
  call.inputs[5] = integers({5});
  call.inputs[6] = integers({6});
  y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), floats({1, 1, 1}, {35}), kTolerance));
  EXPECT_TRUE(close_to(y[2].tensor(), floats({1, 1, 3, 1}, {30, 40, 0})));
}

TEST(GroupQueryAttention, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType query = ValueType::tensor(DType::f16, Dims{batch, length, 32}),
                  keys = ValueType::tensor(DType::f16, Dims{batch, length, 16}),
                  past = ValueType::tensor(DType::f16, Dims{batch, 2, 9, 8}),
                  lengths = ValueType::tensor(DType::i32, Dims{batch}), total = ValueType::tensor(DType::i32, Dims{});
  const ir::Attributes attributes{{"num_heads", Integer{4}}, {"kv_num_heads", Integer{2}}};
  const auto types = infer_op(kOp, {query, keys, keys, past, past, lengths, total}, attributes, 3);
  EXPECT_EQ(types[0], query);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f16, Dims{batch, 2, Dim(), 8}));
  const auto known =
      infer_op(kOp, {query, keys, keys, past, past, lengths, total}, attributes, 3,
               {Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor::scalar(std::int32_t{12})});
  EXPECT_EQ(known[1], ValueType::tensor(DType::f16, Dims{batch, 2, 12, 8}));
}

TEST(GroupQueryAttention, RefusesWhatDoesNotFit) {
  const auto with = [](auto change) {
    OpCall call = prompt();
    change(call);
    return [call] { run_op(call); };
  };
  expect_error(ErrorKind::invalid_model, "1 query heads are not a multiple of 2 key heads",
               with([](OpCall& call) { call.attributes["kv_num_heads"] = Integer{2}; }));
  expect_error(ErrorKind::invalid_model, "do_rotary needs 'cos_cache' and 'sin_cache'",
               with([](OpCall& call) { call.attributes["do_rotary"] = Integer{1}; }));
  expect_error(ErrorKind::invalid_model, "'past_key' and 'past_value' must be given together",
               with([](OpCall& call) { call.inputs[3] = floats({1, 1, 1, 1}, {0}); }));
  expect_error(ErrorKind::invalid_model, "sliding_window_cache needs local_window_size and 'past_key'",
               with([](OpCall& call) { call.attributes["sliding_window_cache"] = Integer{1}; }));
  expect_error(ErrorKind::invalid_model, "kv_cache_bit_width is 3 with k_quant_type PER_TENSOR", with([](OpCall& call) {
                 call.attributes["k_quant_type"] = call.attributes["v_quant_type"] = std::string("PER_TENSOR");
                 call.attributes["kv_cache_bit_width"] = Integer{3};
               }));
  OpCall call = step();
  call.inputs[5] = integers({9, 1});
  expect_error_containing(ErrorKind::failed, "write index 9 with 1 steps is outside a cache of 5",
                          [&] { run_op(call); });
}

}  // namespace
}  // namespace tessera::test::group_query_attention_test
