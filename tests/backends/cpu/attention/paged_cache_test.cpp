#include <gtest/gtest.h>

#include <cstring>

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
    for (const std::int64_t row : {0, 13, 14, 15, 16, 39}) {
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

}  // namespace
}  // namespace tessera::test::paged_cache_test
