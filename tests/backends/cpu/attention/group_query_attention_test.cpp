#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::cpu_group_query_attention_test {
namespace {

struct Sizes {
  std::int64_t batch = 1, heads = 4, kv_heads = 2, size = 8, queries = 1, past = 0;
  std::vector<std::int32_t> lengths;  // of the rows of the batch, with the new positions; empty: past + queries
  std::int32_t total = 0;             // 0: the longest
};

Tensor small(const std::vector<std::int32_t>& values) {
  return Tensor::from<std::int32_t>({static_cast<std::int64_t>(values.size())}, values);
}

OpCall call(const Sizes& sizes, bool packed = false) {
  std::vector<std::int32_t> lengths = sizes.lengths;
  if (lengths.empty())
    lengths.assign(static_cast<std::size_t>(sizes.batch), static_cast<std::int32_t>(sizes.past + sizes.queries));
  const std::int32_t total = sizes.total > 0 ? sizes.total : *std::ranges::max_element(lengths);
  for (std::int32_t& length : lengths) --length;
  const auto rows = [&](std::int64_t heads, std::uint64_t seed) {
    return random_tensor(DType::f32, {sizes.batch, sizes.queries, heads * sizes.size}, seed);
  };
  OpCall made{
      "com.microsoft::GroupQueryAttention", {}, {{"num_heads", sizes.heads}, {"kv_num_heads", sizes.kv_heads}}, 3};
  if (packed) made.inputs = {rows(sizes.heads + 2 * sizes.kv_heads, 1), Value(), Value()};
  else made.inputs = {rows(sizes.heads, 1), rows(sizes.kv_heads, 2), rows(sizes.kv_heads, 3)};
  for (const std::uint64_t seed : {4, 5})
    made.inputs.push_back(
        sizes.past > 0 ? Value(random_tensor(DType::f32, {sizes.batch, sizes.kv_heads, sizes.past, sizes.size}, seed))
                       : Value());
  made.inputs.insert(made.inputs.end(), {small(lengths), small({total})});
  return made;
}

void rotate(OpCall& made, std::int64_t pairs, bool interleaved) {
  made.attributes["do_rotary"] = std::int64_t{1};
  made.attributes["rotary_interleaved"] = std::int64_t{interleaved ? 1 : 0};
  made.inputs.resize(9);
  made.inputs[7] = random_tensor(DType::f32, {300, pairs}, 6);
  made.inputs[8] = random_tensor(DType::f32, {300, pairs}, 7);
}

const Tolerance kTolerance{2e-5, 2e-5};

TEST(CpuGroupQueryAttention, MatchesReferenceOnPromptsAndSteps) {
  for (const bool packed : {false, true}) {
    for (const Sizes& sizes : {Sizes{.queries = 70}, Sizes{.batch = 2, .queries = 5}, Sizes{.queries = 1, .past = 130},
                               Sizes{.batch = 2, .heads = 6, .kv_heads = 2, .size = 20, .queries = 3, .past = 65},
                               // Buffers that are longer than what they hold, of rows with lengths of their own.
                               Sizes{.batch = 2, .queries = 1, .past = 40, .lengths = {7, 40}},
                               Sizes{.batch = 2, .queries = 4, .past = 40, .lengths = {20, 9}},
                               // A prompt into a buffer.
                               Sizes{.queries = 9, .past = 40, .lengths = {9}, .total = 9}}) {
      SCOPED_TRACE(fmt::format("{} queries, past {}, packed {}", sizes.queries, sizes.past, packed));
      expect_matches_reference(call(sizes, packed), kTolerance);
    }
  }
}

TEST(CpuGroupQueryAttention, MatchesReferenceWithItsOptions) {
  const Sizes sizes{.batch = 2, .queries = 3, .past = 65};
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t pairs : {2, 4}) {
      OpCall rotated = call(sizes);
      rotate(rotated, pairs, interleaved);
      expect_matches_reference(rotated, kTolerance);
      rotated.inputs.resize(10);
      Tensor ids(DType::i64, {2, 3});
      std::iota(ids.mutable_data<std::int64_t>(), ids.mutable_data<std::int64_t>() + 6, 40);
      rotated.inputs[9] = ids;
      expect_matches_reference(rotated, kTolerance);
    }
  }
  OpCall others = call(sizes);
  others.attributes["local_window_size"] = std::int64_t{17};
  others.attributes["scale"] = 0.7f;
  others.attributes["softcap"] = 2.0f;
  expect_matches_reference(others, kTolerance);
  others.inputs.resize(16);
  others.inputs[11] = random_tensor(DType::f32, {4}, 8);
  others.inputs[14] = random_tensor(DType::f32, {8}, 9);
  others.inputs[15] = random_tensor(DType::f32, {8}, 10);
  expect_matches_reference(others, kTolerance);
}

TEST(CpuGroupQueryAttention, APositionHasTheSameBitsInAStepAndInAPrompt) {
  OpCall whole = call({.queries = 100});
  rotate(whole, 4, false);
  const std::vector<Value> all = run_op_by(whole, "cpu_group_query_attention");
  OpCall last = call({.queries = 1, .past = 99});
  rotate(last, 4, false);
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& rows = whole.inputs[i].tensor();
    const std::int64_t width = rows.shape()[2];
    last.inputs[i] = Tensor::from<float>(
        {1, 1, width},
        rows.values<float>().subspan(static_cast<std::size_t>(99 * width), static_cast<std::size_t>(width)));
  }
  for (const std::size_t cache : {std::size_t{1}, std::size_t{2}}) {
    const Tensor& present = all[cache].tensor();
    Tensor past(DType::f32, {1, 2, 99, 8});
    for (std::int64_t head = 0; head < 2; ++head)
      std::memcpy(past.mutable_data<float>() + head * 99 * 8, present.data<float>() + head * 100 * 8,
                  99 * 8 * sizeof(float));
    last.inputs[cache + 2] = past;
  }
  const std::vector<Value> one = run_op_by(last, "cpu_group_query_attention");
  EXPECT_EQ(std::memcmp(one[0].tensor().raw(), all[0].tensor().data<float>() + 99 * 32, 32 * sizeof(float)), 0);
  for (const std::size_t cache : {std::size_t{1}, std::size_t{2}})
    EXPECT_TRUE(identical(one[cache].tensor(), all[cache].tensor()));
}

TEST(CpuGroupQueryAttention, LengthsThatDoNotFitAreAnError) {
  for (const std::vector<std::int32_t>& lengths :
       {std::vector{42}, std::vector{0}, std::vector{-7}, std::vector{2147483647}}) {
    OpCall wrong = call({.queries = 1, .past = 40, .lengths = lengths, .total = 40});
    expect_error_containing(ErrorKind::failed, "which do not fit a past of 40",
                            [&] { run_op_by(wrong, "cpu_group_query_attention"); });
  }
  OpCall beyond = call({.queries = 1, .past = 40});
  rotate(beyond, 4, false);
  beyond.inputs[7] = random_tensor(DType::f32, {12, 4}, 6);
  beyond.inputs[8] = random_tensor(DType::f32, {12, 4}, 7);
  expect_error_containing(ErrorKind::failed, "position 40 is outside [0, 12)",
                          [&] { run_op_by(beyond, "cpu_group_query_attention"); });
}

}  // namespace
}  // namespace tessera::test::cpu_group_query_attention_test
