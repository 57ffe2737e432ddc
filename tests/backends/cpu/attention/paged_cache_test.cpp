#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/numbers/philox.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::paged_cache_test {
namespace {

constexpr std::int64_t kHeads = 6, kKvHeads = 2, kSize = 16, kPages = 12, kPageRows = 32;

// Rows of two sequences: positions [begin, end) of each, one after the other. Sequence 0 has even pages, sequence 1 odd
// ones.
struct Step {
  std::int64_t begin0, end0, begin1, end1;
  std::int64_t padding = 0;
};

Tensor integers(Shape shape, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
}

// `rows` has a query, key and value for each position of both sequences.
OpCall call(const Step& step, DType cache, ir::Attributes more = {}, bool sinks = false) {
  std::vector<std::int64_t> positions, sequence, pages;
  for (std::int64_t p = step.begin0; p < step.end0; ++p) positions.push_back(p), sequence.push_back(0);
  for (std::int64_t p = step.begin1; p < step.end1; ++p) positions.push_back(p), sequence.push_back(1);
  for (std::int64_t i = 0; i < step.padding; ++i) positions.push_back(0), sequence.push_back(-1);
  for (std::int64_t i = 0; i < kPages; ++i) pages.push_back(i % 6 * 2 + i / 6);
  const auto rows = static_cast<std::int64_t>(positions.size());
  const Shape shape{kPages, kKvHeads, kPageRows, kSize}, scales{kPages, kKvHeads, kPageRows};
  OpCall made{"tessera::CacheAttention",
              {random_tensor(DType::f32, {rows, kHeads * kSize}, 1, -2, 2),
               random_tensor(DType::f32, {rows, kKvHeads * kSize}, 2, -2, 2),
               random_tensor(DType::f32, {rows, kKvHeads * kSize}, 3, -2, 2), random_tensor(cache, shape, 4, -2, 2),
               random_tensor(cache, shape, 5, -2, 2), integers({2, kPages / 2}, pages), integers({rows}, positions),
               integers({rows}, sequence)},
              {{"heads", kHeads}, {"kv_heads", kKvHeads}, {"scale", 0.25f}}};
  made.attributes.insert(more.begin(), more.end());
  if (sinks || cache == DType::i8)
    made.inputs.emplace_back(sinks ? Value(random_tensor(DType::f32, {kHeads}, 6, -1, 1)) : Value());
  if (cache == DType::i8)
    for (const std::uint64_t seed : {7, 8}) made.inputs.emplace_back(random_tensor(DType::f32, scales, seed, 0.1, 1));
  return made;
}

TEST(CpuCacheAttention, MatchesReference) {
  for (const DType cache : {DType::f32, DType::f16, DType::i8}) {
    SCOPED_TRACE(name_of(cache));
    for (const Step& step : {Step{0, 1, 0, 0}, Step{0, 5, 0, 3, 2}, Step{70, 71, 140, 142, 1}, Step{60, 75, 0, 1}})
      expect_matches_reference(call(step, cache), Tolerance{2e-5, 2e-5});
    expect_matches_reference(call({130, 140, 3, 9}, cache, {{"window", std::int64_t{40}}}), Tolerance{2e-5, 2e-5});
    expect_matches_reference(call({130, 133, 3, 9}, cache, {{"softcap", 1.5f}}, true), Tolerance{2e-5, 2e-5});
  }
}

TEST(CpuCacheAttention, ARowHasTheSameBitsBesideAnyOthers) {
  const OpCall all = call({100, 101, 20, 25, 2}, DType::f16);
  const std::string kernel = chosen_cpu_kernel(all);
  const Tensor together = run_op_tensor_by(all, kernel);
  OpCall alone = call({100, 101, 0, 0}, DType::f16);
  for (const std::size_t i : {0, 1, 2}) {  // the operands of the first row
    const Tensor& rows = all.inputs[i].tensor();
    const std::int64_t width = rows.shape()[1];
    alone.inputs[i] = Tensor::from<float>({1, width}, rows.values<float>().first(static_cast<std::size_t>(width)));
  }
  const Tensor y = run_op_tensor_by(alone, kernel);
  EXPECT_EQ(std::memcmp(y.raw(), together.raw(), static_cast<std::size_t>(y.bytes())), 0);
}

// A step of 40 rows of one sequence, whose runs of rows share blocks, beside each of its rows after the ones before it
// were written into the cache.
TEST(CpuCacheAttention, ARowHasTheSameBitsInAChunkAndInAStepOfItsOwn) {
  for (const std::int64_t window : {0, 20}) {
    const ir::Attributes more{{"window", window}};
    OpCall all = call({50, 90, 0, 0}, DType::f16, more);
    const std::string kernel = chosen_cpu_kernel(all);
    const Tensor together = run_op_tensor_by(all, kernel);
    for (const std::size_t cache : {3, 4}) {
      const OpCall append{"tessera::AppendRows",
                          {all.inputs[cache], all.inputs[cache - 2], all.inputs[5], all.inputs[6], all.inputs[7]}};
      all.inputs[cache] = run_op_tensor(append);
    }
    for (const std::int64_t row : {0, 13, 14, 15, 16, 31, 32, 39}) {
      OpCall alone = all;
      for (const std::size_t i : {0, 1, 2}) {
        const std::int64_t width = all.inputs[i].tensor().shape()[1];
        alone.inputs[i] = Tensor::from<float>(
            {1, width}, all.inputs[i].tensor().values<float>().subspan(static_cast<std::size_t>(row * width),
                                                                       static_cast<std::size_t>(width)));
      }
      alone.inputs[6] = integers({1}, {50 + row});
      alone.inputs[7] = integers({1}, {0});
      const Tensor y = run_op_tensor_by(alone, kernel);
      EXPECT_EQ(std::memcmp(y.raw(), together.data<float>() + row * kHeads * kSize, kHeads * kSize * sizeof(float)), 0)
          << row << " with a window of " << window;
    }
  }
}

// Head sizes that fill no vector, values of another size than keys, groups of any number of heads, windows that begin
// and end within blocks, and steps that begin anywhere.
TEST(CpuCacheAttention, MatchesReferenceOnRandomShapes) {
  base::Philox random(46, 1);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t kv_heads = random.next_integer(1, 3), heads = kv_heads * random.next_integer(1, 7),
                       size = random.next_integer(1, 70), value_size = random.next_integer(1, 70),
                       begin = random.next_integer(0, 150), rows = random.next_integer(1, 40),
                       window = random.next_integer(0, 1) * random.next_integer(1, 100);
    const DType cache = std::array{DType::f32, DType::f16, DType::i8}[static_cast<std::size_t>(i % 3)];
    SCOPED_TRACE(fmt::format("{}: {} of {} heads of {} and {}, {} rows from {} on, window {}", name_of(cache), heads,
                             kv_heads, size, value_size, rows, begin, window));
    OpCall made = call({begin, begin + rows, 3, 5}, cache, {{"window", window}}, i % 2 == 0);
    made.attributes["heads"] = heads, made.attributes["kv_heads"] = kv_heads;
    const auto operand = [&](std::size_t at, DType type, Shape shape) {
      made.inputs[at] = random_tensor(type, std::move(shape), at + static_cast<std::size_t>(i) * 16, -1, 1);
    };
    operand(0, DType::f32, {rows + 2, heads * size});
    operand(1, DType::f32, {rows + 2, kv_heads * size});
    operand(2, DType::f32, {rows + 2, kv_heads * value_size});
    operand(3, cache, {kPages, kv_heads, kPageRows, size});
    operand(4, cache, {kPages, kv_heads, kPageRows, value_size});
    if (i % 2 == 0) operand(8, DType::f32, {heads});
    for (std::size_t at = 9; at < made.inputs.size(); ++at)
      made.inputs[at] = random_tensor(DType::f32, {kPages, kv_heads, kPageRows}, at, 0.01, 0.02);
    expect_matches_reference(made, Tolerance{5e-5, 5e-5});
  }
}

}  // namespace
}  // namespace tessera::test::paged_cache_test
