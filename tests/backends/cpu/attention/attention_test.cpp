#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/machine/simd.h"
#include "base/numbers/half.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::attention_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 100);

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, size, value_size;
};

Tensor random(const Shape& shape, std::uint64_t seed) {
  return random_tensor(DType::f32, shape, seed, -2, 2);
}

// Heads first, or packed.
OpCall call(const Sizes& s, bool packed, ir::Attributes attributes = {}) {
  const auto operand = [&](std::int64_t heads, std::int64_t length, std::int64_t size, std::uint64_t seed) {
    return random(packed ? Shape{s.batch, length, heads * size} : Shape{s.batch, heads, length, size}, seed);
  };
  if (packed) attributes.insert({{"q_num_heads", s.heads}, {"kv_num_heads", s.kv_heads}});
  return {"Attention",
          {operand(s.heads, s.queries, s.size, 1), operand(s.kv_heads, s.keys, s.size, 2),
           operand(s.kv_heads, s.keys, s.value_size, 3)},
          std::move(attributes)};
}

Tensor random_booleans(const Shape& shape, std::uint64_t seed) {
  const Tensor numbers = random(shape, seed);
  Tensor result(DType::boolean, shape);
  for (std::int64_t i = 0; i < numbers.elements(); ++i)
    result.mutable_data<bool>()[i] = numbers.data<float>()[i] > -0.5f;
  return result;
}

// One head of many queries and keys goes by panels and blocks, few queries go one by one; heads of 300 have thin
// blocks, those of 1100 none.
const Sizes kSizes[] = {{1, 1, 1, 1, 1, 1, 1},     {2, 3, 3, 7, 5, 3, 4},       {1, 2, 1, 40, 70, 17, 33},
                        {2, 4, 2, 3, 37, 64, 64},  {1, 1, 1, 150, 600, 32, 32}, {1, 6, 2, 1, 1030, 20, 5},
                        {1, 1, 1, 13, 65, 300, 1}, {1, 2, 2, 6, 9, 1100, 1000}, {3, 2, 2, 25, 0, 4, 4},
                        {2, 2, 2, 0, 3, 4, 4}};

TEST(CpuAttention, MatchesReference) {
  for (const Sizes& sizes : kSizes) {
    for (const bool packed : {false, true}) {
      expect_matches_reference(call(sizes, packed), kTolerance);
      expect_matches_reference(call(sizes, packed, {{"is_causal", std::int64_t{1}}, {"scale", 0.3f}}), kTolerance);
    }
  }
}

// A batch of rank 3 that is empty, fused, is one of no heads.
TEST(CpuAttention, OfNoHeadsIsEmpty) {
  expect_matches_reference(call({2, 0, 0, 3, 4, 5, 6}, false), kTolerance);
}

TEST(CpuAttention, MasksOfEveryShape) {
  for (const Sizes& s : {Sizes{2, 2, 1, 30, 70, 8, 8}, Sizes{2, 2, 2, 2, 9, 8, 8}}) {
    for (const Shape& shape : {Shape{s.keys}, Shape{s.queries, s.keys}, Shape{1, s.keys}, Shape{2, s.queries, s.keys},
                               Shape{2, 1, 1, s.keys}, Shape{1, 2, s.queries, s.keys}, Shape{2, 2, s.queries, s.keys},
                               Shape{2, 2, s.queries, 5}}) {
      OpCall masked = call(s, false, {{"softcap", 1.5f}});
      masked.inputs.emplace_back(random(shape, 7));
      expect_matches_reference(masked, kTolerance);
      masked.inputs[3] = random_booleans(shape, 8);
      masked.attributes["is_causal"] = std::int64_t{1};
      expect_matches_reference(masked, kTolerance);
    }
  }
}

TEST(CpuAttention, RowsThatNothingTakesPartIn) {
  for (const std::int64_t queries : {std::int64_t{2}, std::int64_t{20}}) {
    OpCall masked = call({1, 1, 1, queries, 400, 40, 40}, false);
    Tensor mask = random({queries, 400}, 4);
    std::fill_n(mask.mutable_data<float>() + 400, 400, -kInfinity);  // the second query
    std::fill_n(mask.mutable_data<float>(), 390, -kInfinity);        // the first block of the first
    masked.inputs.emplace_back(mask);
    expect_matches_reference(masked, kTolerance);
    std::fill_n(mask.mutable_data<float>(), 400, std::numeric_limits<float>::lowest());
    expect_matches_reference(masked, kTolerance);
  }
}

// NaN, where scores are kept, in most places; other numbers, and -infinity for whole rows.
Tensor replacement(const Shape& shape) {
  Tensor result = random(shape, 12);
  const std::int64_t keys = shape.back();
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    float& number = result.mutable_data<float>()[i];
    if (i / keys % 5 == 3) number = -kInfinity;
    else if (number < 1) number = std::numeric_limits<float>::quiet_NaN();
  }
  return result;
}

TEST(CpuAttention, ReplacedScoresAndASecondMask) {
  for (const Sizes& s : {Sizes{2, 2, 1, 30, 70, 8, 8}, Sizes{2, 2, 2, 2, 9, 8, 8}, Sizes{1, 2, 1, 5, 700, 64, 64}}) {
    for (const bool has_masks : {false, true}) {
      for (const std::int64_t nan_rows : {0, 1, 2}) {
        OpCall masked = call(s, has_masks, {{"nan_rows", nan_rows}});
        masked.inputs.resize(8);
        masked.inputs[7] = replacement({2, 1, s.queries, s.keys});
        if (s.batch == 1) masked.inputs[7] = replacement({s.queries, s.keys});
        if (has_masks) {
          masked.inputs[3] = random({1, s.keys}, 7);
          masked.inputs.emplace_back(random({s.heads, s.queries, s.keys}, 8));
        }
        expect_matches_reference(masked, kTolerance);
      }
    }
  }
}

TEST(CpuAttention, PastPresentAndValidKeys) {
  for (const Sizes& s : {Sizes{2, 4, 2, 6, 6, 12, 20}, Sizes{2, 2, 2, 1, 1, 16, 16}}) {
    for (const bool packed : {false, true}) {
      OpCall cached = call(s, packed, {{"is_causal", std::int64_t{1}}});
      OpCall valid = cached;
      cached.inputs.resize(6);
      cached.inputs[4] = random({s.batch, s.kv_heads, 11, s.size}, 5);
      cached.inputs[5] = random({s.batch, s.kv_heads, 11, s.value_size}, 6);
      expect_matches_reference(cached, kTolerance);
      cached.outputs = 3;
      expect_matches_reference(cached, kTolerance);
      valid.outputs = 2;
      valid.inputs.resize(7);
      for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{100}}) {
        valid.inputs[6] = Tensor::from<std::int64_t>({2}, {1, length});
        expect_matches_reference(valid, kTolerance);
      }
    }
  }
}

TEST(CpuAttention, ValuesThatAreLeftOutDoNoHarm) {
  for (const std::int64_t queries : {std::int64_t{3}, std::int64_t{30}}) {
    OpCall left_out = call({1, 1, 1, queries, 40, 24, 24}, false);
    Tensor values = left_out.inputs[2].tensor().clone();
    values.mutable_data<float>()[24 * 7 + 3] = std::numeric_limits<float>::quiet_NaN();
    values.mutable_data<float>()[24 * 9 + 2] = kInfinity;
    left_out.inputs[2] = values;
    Tensor mask(DType::boolean, {queries, 40});
    std::fill_n(mask.mutable_data<bool>(), mask.elements(), true);
    for (std::int64_t i = 1; i < queries; ++i)
      mask.mutable_data<bool>()[i * 40 + 7] = mask.mutable_data<bool>()[i * 40 + 9] = false;
    left_out.inputs.emplace_back(mask);
    expect_matches_reference(left_out, kTolerance);
  }
}

TEST(CpuAttention, ScoresThatAreNoNumbers) {
  for (const std::int64_t queries : {std::int64_t{2}, std::int64_t{20}}) {
    OpCall odd = call({1, 1, 1, queries, 30, 8, 8}, false);
    Tensor query = odd.inputs[0].tensor().clone();
    query.mutable_data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    query.mutable_data<float>()[8] = 1e30f;
    odd.inputs[0] = query;
    expect_matches_reference(odd, kTolerance);
  }
}

TEST(CpuAttention, LeavesOtherTypesAndScoresToTheReference) {
  OpCall scores = call({1, 1, 1, 2, 3, 4, 4}, false);
  scores.outputs = 4;
  EXPECT_EQ(chosen_cpu_kernel(scores), "reference_attention");
  scores.outputs = 1;
  EXPECT_EQ(chosen_cpu_kernel(scores), "cpu_attention");
  scores.inputs.emplace_back(Tensor::from<std::int64_t>({3}, {0, 1, 0}));
  EXPECT_EQ(chosen_cpu_kernel(scores), "reference_attention");
}

// The same with operands and result of bfloat16.
OpCall rounded(OpCall call) {
  for (std::size_t i = 0; i < 3; ++i) {
    Tensor numbers(DType::bf16, call.inputs[i].tensor().shape());
    const float* from = call.inputs[i].tensor().data<float>();
    for (std::int64_t j = 0; j < numbers.elements(); ++j) numbers.mutable_data<bf16_t>()[j] = base::to_bf16(from[j]);
    call.inputs[i] = numbers;
  }
  return call;
}

// The weights of values are rounded.
void check_bf16(const OpCall& call) {
  EXPECT_EQ(chosen_cpu_kernel(call), "cpu_attention_bf16");
  const Tensor expected = run_op_tensor(call, "reference");
  for (const backends::cpu::Extensions extensions : backends::cpu::kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const backends::cpu::ScopedIsa scoped(isa, extensions);
      const Tensor one = run_op_tensor(call, "cpu", 1);
      EXPECT_TRUE(close_to(one, expected, {.relative = 0.01, .absolute = 0.004})) << "isa " << static_cast<int>(isa);
      for (const int threads : {2, 3}) EXPECT_TRUE(identical(run_op_tensor(call, "cpu", threads), one));
    }
  }
}

TEST(CpuBf16Attention, MatchesReference) {
  const Sizes all[] = {{2, 3, 3, 7, 5, 4, 4},       {1, 2, 1, 40, 70, 16, 33}, {2, 4, 2, 3, 37, 64, 64},
                       {1, 1, 1, 150, 600, 32, 31}, {1, 6, 2, 5, 1030, 20, 5}, {1, 1, 1, 13, 65, 300, 1},
                       {1, 2, 2, 6, 9, 500, 512},   {1, 1, 1, 13, 1, 2, 1}};
  for (const Sizes& sizes : all) {
    SCOPED_TRACE(sizes.keys);
    for (const bool packed : {false, true}) {
      check_bf16(rounded(call(sizes, packed)));
      check_bf16(rounded(call(sizes, packed, {{"is_causal", std::int64_t{1}}, {"scale", 0.3f}})));
    }
  }
}

TEST(CpuBf16Attention, Masks) {
  for (const Shape& shape : {Shape{70}, Shape{30, 70}, Shape{2, 1, 1, 70}, Shape{2, 2, 30, 70}, Shape{2, 2, 30, 5}}) {
    OpCall masked = rounded(call({2, 2, 1, 30, 70, 8, 8}, false, {{"softcap", 1.5f}}));
    masked.inputs.emplace_back(random(shape, 7));
    check_bf16(masked);
    masked.inputs[3] = random_booleans(shape, 8);
    masked.attributes["is_causal"] = std::int64_t{1};
    check_bf16(masked);
  }
  OpCall valid = rounded(call({2, 2, 1, 30, 70, 8, 8}, true));
  valid.inputs.resize(7);
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}}) {
    valid.inputs[6] = Tensor::from<std::int64_t>({2}, {33, length});
    check_bf16(valid);
  }
}

TEST(CpuBf16Attention, ValuesThatAreLeftOutDoNoHarm) {
  OpCall left_out = call({1, 1, 1, 30, 41, 24, 24}, false);
  Tensor values = left_out.inputs[2].tensor().clone();
  values.mutable_data<float>()[24 * 7 + 3] = std::numeric_limits<float>::quiet_NaN();
  values.mutable_data<float>()[24 * 40 + 23] = kInfinity;
  left_out.inputs[2] = values;
  Tensor mask(DType::boolean, {30, 41});
  std::fill_n(mask.mutable_data<bool>(), mask.elements(), true);
  for (std::int64_t i = 1; i < 30; ++i)
    mask.mutable_data<bool>()[i * 41 + 7] = mask.mutable_data<bool>()[i * 41 + 40] = false;
  left_out.inputs.emplace_back(mask);
  check_bf16(rounded(left_out));
}

TEST(CpuBf16Attention, LeavesOtherFormsToTheReference) {
  const auto chosen = [](const Sizes& sizes, std::size_t outputs = 1) {
    OpCall call = rounded(attention_test::call(sizes, false));
    call.outputs = outputs;
    return chosen_cpu_kernel(call);
  };
  EXPECT_EQ(chosen({1, 1, 1, 3, 3, 4, 4}), "cpu_attention_bf16");
  EXPECT_EQ(chosen({1, 1, 1, 3, 3, 5, 4}), "reference_attention");
  EXPECT_EQ(chosen({1, 1, 1, 2, 3, 4, 4}), "reference_attention");
  EXPECT_EQ(chosen({1, 1, 1, 3, 3, 4, 4}, 2), "reference_attention");
}

}  // namespace
}  // namespace tessera::test::attention_test
