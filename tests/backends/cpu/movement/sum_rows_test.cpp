#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::sum_rows_test {
namespace {

Tensor random_indices(DType type, const Shape& shape, std::int64_t size) {
  const Tensor numbers = random_tensor(DType::f32, shape, 5, -static_cast<double>(size), static_cast<double>(size));
  Tensor indices(type, shape);
  for (std::int64_t i = 0; i < numbers.elements(); ++i) {
    const auto index = static_cast<std::int64_t>(numbers.data<float>()[i]);
    if (type == DType::i64) indices.mutable_data<std::int64_t>()[i] = index;
    else indices.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(index);
  }
  return indices;
}

// `axes` of the indices, and the rest of a row.
OpCall call_of(const Shape& axes, const Shape& row, std::int64_t size, DType type = DType::i64) {
  Shape rows = axes;
  rows.insert(rows.end(), row.begin(), row.end());
  return {"tessera::SumRows",
          {random_tensor(DType::f32, rows, 4, -1, 1), random_indices(type, axes, size),
           Tensor::from<std::int64_t>({1}, {size})},
          {},
          2};
}

TEST(CpuSumRows, MatchesReference) {
  const Tolerance tolerance = Tolerance::epsilons(DType::f32, 64);
  expect_matches_reference(call_of({7}, {3}, 4), tolerance);
  expect_matches_reference(call_of({2, 40}, {17}, 9, DType::i32), tolerance);
  expect_matches_reference(call_of({300}, {16}, 100'000), tolerance);  // sorted by comparing
  expect_matches_reference(call_of({1000}, {}, 20), tolerance);
  expect_matches_reference(call_of({3}, {2, 2}, 1), tolerance);
  expect_matches_reference(call_of({0}, {5}, 6), tolerance);
}

// What ScatterRows gives, without the rows of zeros; sums have the same bits.
TEST(CpuSumRows, HasTheSumsOfScatterRows) {
  const OpCall call = call_of({500}, {24}, 80);
  const std::vector<Value> found = run_op(call, "cpu", 2);
  const Tensor &sums = found[0].tensor(), &places = found[1].tensor();
  const Tensor whole = run_op_tensor({"tessera::ScatterRows", call.inputs}, "cpu", 1);
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < 500; ++i) {
    const std::int64_t place = places.data<std::int64_t>()[i];
    if (i >= 80) {
      EXPECT_EQ(place, 80);
    }
    EXPECT_TRUE(place > last || place == 80);
    last = place;
    for (std::int64_t j = 0; j < 24; ++j)
      ASSERT_EQ(sums.data<float>()[i * 24 + j], place == 80 ? 0.0f : whole.data<float>()[place * 24 + j]) << i;
  }
}

TEST(CpuSumRows, IndicesOutsideTheTable) {
  OpCall call = call_of({3}, {2}, 4);
  call.inputs[1] = Tensor::from<std::int64_t>({3}, {0, 4, 1});
  expect_error(ErrorKind::failed, "index 4 is outside [-4, 4)", [&] { run_op(call, "cpu"); });
}

}  // namespace
}  // namespace tessera::test::sum_rows_test
