#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::append_rows_test {
namespace {

Tensor integers(Shape shape, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
}

// Rows of two sequences and one of none, for heads of sizes that fill vectors and that do not.
TEST(CpuAppendRows, MatchesReference) {
  for (const DType cache : {DType::f32, DType::f16, DType::i8}) {
    for (const std::int64_t size : {1, 7, 16, 37, 64}) {
      SCOPED_TRACE(fmt::format("{} heads of {}", name_of(cache), size));
      Tensor rows = random_tensor(DType::f32, {4, 3 * size}, 1, -4, 4);
      // What float16 rounds to infinity, to a subnormal number, to zero, and no number.
      if (cache != DType::i8 && size >= 7) {
        const float special[] = {1e6f, -65519.0f, 65520.0f, 3e-6f, -1e-9f, std::numeric_limits<float>::infinity(),
                                 -0.0f};
        std::ranges::copy(special, rows.mutable_data<float>() + 3 * size);
      }
      OpCall made{"tessera::AppendRows",
                  {random_tensor(cache, {5, 3, 32, size}, 2, -1, 1), rows, integers({2, 2}, {4, 1, 0, -1}),
                   integers({4}, {31, 32, 0, 30}), integers({4}, {0, 0, -1, 1})}};
      if (cache == DType::i8) {
        made.inputs.emplace_back(random_tensor(DType::f32, {5, 3, 32}, 3, 0.1, 1));
        made.outputs = 2;
      }
      expect_matches_reference(made, Tolerance{0, 0});
    }
  }
}

TEST(CpuAppendRows, APositionWithoutAPageIsAnError) {
  const OpCall made{"tessera::AppendRows",
                    {random_tensor(DType::f16, {5, 1, 32, 8}, 2, -1, 1), random_tensor(DType::f32, {1, 8}, 1, -4, 4),
                     integers({1, 2}, {4, -1}), integers({1}, {40}), integers({1}, {0})}};
  EXPECT_THROW(run_op_tensor_by(made, "cpu_append_rows"), Error);
}

}  // namespace
}  // namespace tessera::test::append_rows_test
