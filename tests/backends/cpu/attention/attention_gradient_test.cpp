#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::attention_gradient_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, size, value_size;
};

Tensor random(const Shape& shape, std::uint64_t seed) {
  return random_tensor(DType::f32, shape, seed, -1, 1);
}

Tensor random_booleans(const Shape& shape, std::uint64_t seed) {
  const Tensor numbers = random(shape, seed);
  Tensor result(DType::boolean, shape);
  for (std::int64_t i = 0; i < numbers.elements(); ++i)
    result.mutable_data<bool>()[i] = numbers.data<float>()[i] > -0.3f;
  return result;
}

// Heads first, or packed.
OpCall forward_of(const Sizes& s, bool packed, const Value& mask = {}, ir::Attributes attributes = {}) {
  const auto operand = [&](std::int64_t heads, std::int64_t length, std::int64_t size, std::uint64_t seed) {
    return random(packed ? Shape{s.batch, length, heads * size} : Shape{s.batch, heads, length, size}, seed);
  };
  if (packed) attributes.insert({{"q_num_heads", s.heads}, {"kv_num_heads", s.kv_heads}});
  return {"tessera::AttentionWithStatistics",
          {operand(s.heads, s.queries, s.size, 1), operand(s.kv_heads, s.keys, s.size, 2),
           operand(s.kv_heads, s.keys, s.value_size, 3), mask},
          std::move(attributes),
          4};
}

OpCall gradient_of(const OpCall& forward, const char* device = "reference") {
  const std::vector<Value> results = run_op(forward, device);
  OpCall call{"tessera::AttentionGradient", forward.inputs, forward.attributes, 3};
  call.inputs.emplace_back(results[0]);
  call.inputs.emplace_back(results[3]);
  call.inputs.emplace_back(random(results[0].tensor().shape(), 7));
  return call;
}

void check(const Sizes& s, bool packed, const Value& mask = {}, const ir::Attributes& attributes = {}) {
  SCOPED_TRACE("batch " + std::to_string(s.batch) + " heads " + std::to_string(s.heads) + " queries " +
               std::to_string(s.queries) + " keys " + std::to_string(s.keys) + " size " + std::to_string(s.size) +
               (packed ? " packed" : ""));
  expect_matches_reference(gradient_of(forward_of(s, packed, mask, attributes)),
                           Tolerance::epsilons(DType::f32, 200 + static_cast<double>(s.queries + s.keys)));
}

// More queries than a span has; keys of several blocks; heads that share keys and values; odd sizes of each; tasks of
// one head that share its keys.
const Sizes kSizes[] = {{1, 1, 1, 1, 1, 1, 1},       {2, 3, 3, 7, 5, 3, 4},    {1, 2, 1, 40, 70, 17, 33},
                        {2, 4, 2, 3, 137, 64, 64},   {5, 5, 5, 97, 33, 32, 8}, {1, 1, 1, 300, 261, 32, 20},
                        {3, 8, 8, 401, 129, 12, 12}, {1, 6, 2, 1, 530, 20, 5}, {1, 2, 2, 13, 65, 300, 1},
                        {3, 2, 2, 25, 0, 4, 4},      {2, 2, 2, 0, 3, 4, 4}};

TEST(CpuAttentionGradient, MatchesReference) {
  for (const Sizes& sizes : kSizes) {
    for (const bool packed : {false, true}) {
      check(sizes, packed);
      check(sizes, packed, {}, {{"is_causal", std::int64_t{1}}, {"scale", 0.3f}});
    }
  }
}

TEST(CpuAttentionGradient, MasksOfEveryShape) {
  const Sizes s{2, 2, 1, 30, 150, 8, 8};
  for (const Shape& shape :
       {Shape{s.keys}, Shape{s.queries, s.keys}, Shape{1, s.keys}, Shape{2, s.queries, s.keys}, Shape{2, 1, 1, s.keys},
        Shape{1, 2, s.queries, s.keys}, Shape{2, 2, s.queries, s.keys}, Shape{2, 2, s.queries, 5}}) {
    check(s, false, random(shape, 7));
    check(s, true, random_booleans(shape, 8), {{"is_causal", std::int64_t{1}}});
  }
}

// Of 200 keys: none for the second query, none of the first block for the first.
Tensor forbidding_mask(float forbidding) {
  Tensor mask = random({20, 200}, 4);
  std::fill_n(mask.mutable_data<float>() + 200, 200, forbidding);
  std::fill_n(mask.mutable_data<float>(), 190, forbidding);
  return mask;
}

TEST(CpuAttentionGradient, ReplacedScoresAndASecondMask) {
  for (const Sizes& s : {Sizes{2, 2, 1, 30, 150, 8, 8}, Sizes{1, 2, 2, 5, 9, 20, 5}}) {
    for (const bool has_masks : {false, true}) {
      for (const std::int64_t nan_rows : {0, 1, 2}) {
        OpCall forward = forward_of(s, has_masks, {}, {{"nan_rows", nan_rows}});
        forward.inputs.resize(8);
        Tensor replacement = random({s.queries, s.keys}, 12);
        for (std::int64_t i = 0; i < replacement.elements(); ++i) {
          float& number = replacement.mutable_data<float>()[i];
          if (nan_rows != 1 && i / s.keys == 3) number = -kInfinity;
          else if (number < 0.5f) number = std::numeric_limits<float>::quiet_NaN();
        }
        forward.inputs[7] = replacement;
        if (has_masks) {
          forward.inputs[3] = random({1, s.keys}, 7);
          forward.inputs.emplace_back(random({s.heads, s.queries, s.keys}, 8));
        }
        const std::vector<Value> results = run_op(forward);
        OpCall call{"tessera::AttentionGradient", {}, forward.attributes, 3};
        call.inputs.assign(forward.inputs.begin(), forward.inputs.begin() + 4);
        call.inputs.insert(call.inputs.end(),
                           {results[0], results[3], random(results[0].tensor().shape(), 7), Value()});
        call.inputs.insert(call.inputs.end(), forward.inputs.begin() + 7, forward.inputs.end());
        expect_matches_reference(call, Tolerance::epsilons(DType::f32, 400));
      }
    }
  }
}

// With -infinity nothing flows back; with the lowest number all keys count alike.
TEST(CpuAttentionGradient, RowsThatNothingTakesPartIn) {
  for (const float forbidding : {-kInfinity, std::numeric_limits<float>::lowest()})
    check({1, 1, 1, 20, 200, 40, 40}, false, forbidding_mask(forbidding));
}

// Beside such a number float32 keeps nothing of a score, so that it does as the lowest one does.
TEST(CpuAttentionGradient, NumbersThatSwallowScores) {
  const auto gradients = [](float forbidding) {
    return run_op(gradient_of(forward_of({1, 1, 1, 20, 200, 40, 40}, false, forbidding_mask(forbidding)), "cpu"),
                  "cpu");
  };
  const std::vector<Value> lowest = gradients(std::numeric_limits<float>::lowest()), other = gradients(-1e9f);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(close_to(other[i].tensor(), lowest[i].tensor(), Tolerance::epsilons(DType::f32, 100))) << i;
}

TEST(CpuAttentionWithStatistics, MatchesReference) {
  for (const Sizes& sizes : kSizes) {
    for (const bool packed : {false, true}) {
      const ir::Attributes causal{{"is_causal", std::int64_t{1}}};
      expect_matches_reference(forward_of(sizes, packed, {}, causal), Tolerance::epsilons(DType::f32, 100));
    }
  }
}

// The same weights are dropped forward and back, and as the reference does, whatever the blocks and the threads are.
TEST(CpuAttentionWithDropout, MatchesReference) {
  bool packed = false;
  for (const Sizes& sizes : {kSizes[1], kSizes[2], kSizes[4], kSizes[7], kSizes[9]}) {
    OpCall forward = forward_of(sizes, packed, {},
                                {{"is_causal", std::int64_t{packed}}, {"dropout", 0.3f}, {"seed", std::int64_t{11}}});
    forward.op = "tessera::AttentionWithDropout";
    forward.outputs = 5;
    const Tolerance tolerance = Tolerance::epsilons(DType::f32, 200 + static_cast<double>(sizes.queries + sizes.keys));
    expect_matches_reference(forward, tolerance);
    OpCall gradient = gradient_of(forward);
    gradient.attributes.erase("seed");
    gradient.inputs.emplace_back(run_op(forward)[4]);
    expect_matches_reference(gradient, tolerance);
    packed = !packed;
  }
}

// Softmax, Dropout of the same seed and the product with the values.
TEST(CpuAttentionWithDropout, IsWhatItDecomposesInto) {
  for (const std::int64_t keys : {6, 37, 200, 601}) {
    const Sizes s{2, 3, 3, 21, keys, 16, 8};
    OpCall forward = forward_of(s, false, {}, {{"dropout", 0.4f}, {"seed", std::int64_t{12}}});
    forward.op = "tessera::AttentionWithDropout";
    forward.outputs = 5;
    const Tensor turned =
        run_op_tensor({"Transpose", {forward.inputs[1]}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}}});
    const Tensor scores = run_op_tensor({"MatMul", {forward.inputs[0], turned}});
    const Tensor weights = run_op_tensor({"Softmax", {run_op_tensor({"Mul", {scores, Tensor::scalar(0.25f)}})}});
    const Tensor kept =
        run_op_tensor({"Dropout", {weights, Tensor::scalar(0.4f), Tensor::scalar(true)}, {{"seed", std::int64_t{12}}}});
    const Tensor y = run_op_tensor({"MatMul", {kept, forward.inputs[2]}});
    EXPECT_TRUE(close_to(run_op_tensor(forward, "cpu"), y, Tolerance::epsilons(DType::f32, 200))) << keys;
  }
}

TEST(CpuAttentionGradient, LeavesOtherTypesToTheReference) {
  OpCall call = gradient_of(forward_of({1, 1, 1, 2, 3, 4, 4}, false));
  EXPECT_EQ(chosen_cpu_kernel(call), "cpu_attention_gradient");
  call.inputs[3] = Tensor::from<std::int64_t>({3}, {0, 1, 0});
  EXPECT_EQ(chosen_cpu_kernel(call), "reference_attention_gradient");
}

}  // namespace
}  // namespace tessera::test::attention_gradient_test
