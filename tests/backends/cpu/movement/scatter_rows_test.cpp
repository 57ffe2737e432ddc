#include "ops/movement/scatter_rows.h"

#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::scatter_rows_test {
namespace {

Tensor size_of(std::int64_t size) {
  return Tensor::from<std::int64_t>({1}, {size});
}

struct ScatterCase {
  Shape outer, indices, inner;
  std::int64_t size;
};

TEST(CpuScatterRows, MatchesReference) {
  const ScatterCase cases[] = {{{}, {5}, {3}, 4},     {{}, {64}, {64}, 10'000}, {{}, {3, 7}, {17}, 5},
                               {{4}, {351}, {}, 729}, {{2, 3}, {}, {5}, 4},     {{3}, {0}, {8}, 6},
                               {{}, {9}, {0}, 3},     {{0}, {2}, {4}, 3},       {{}, {1'000}, {}, 70'001},
                               {{}, {0}, {3}, 0},     {{}, {200}, {1'031}, 300}};
  for (const ScatterCase& each : cases) {
    Shape rows = each.outer;
    rows.insert(rows.end(), each.indices.begin(), each.indices.end());
    rows.insert(rows.end(), each.inner.begin(), each.inner.end());
    const ir::Attributes axis{{"axis", static_cast<std::int64_t>(each.outer.size())}};
    for (const DType type : {DType::i64, DType::i32}) {
      const Tensor indices =
          random_tensor(type, each.indices, 7, -static_cast<double>(each.size), static_cast<double>(each.size) - 1);
      expect_matches_reference(
          {"tessera::ScatterRows", {random_tensor(DType::f32, rows, 5, -2, 2), indices, size_of(each.size)}, axis},
          Tolerance::epsilons(DType::f32, 8));
    }
  }
}

TEST(CpuScatterRows, RefusesIndicesOutside) {
  const Tensor rows = random_tensor(DType::f32, {2, 3}, 1);
  for (const std::int64_t index : {-5, 4}) {
    const Tensor indices = Tensor::from<std::int64_t>({2}, {0, index});
    expect_error(ErrorKind::failed, "index " + std::to_string(index) + " is outside [-4, 4)",
                 [&] { run_op_tensor({"tessera::ScatterRows", {rows, indices, size_of(4)}}, "cpu"); });
  }
}

}  // namespace
}  // namespace tessera::test::scatter_rows_test
