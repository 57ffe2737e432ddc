#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::select_test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
const Tensor kGrid = Tensor::from<float>({3, 2}, {1, 2, 3, 4, 5, 6});

TEST(Compress, TakesWhereTrue) {
  const Tensor condition = Tensor::from<bool>({3}, {false, true, true});
  EXPECT_TRUE(identical(run_op_tensor({"Compress", {kGrid, condition}, {{"axis", std::int64_t{0}}}}),
                        Tensor::from<float>({2, 2}, {3, 4, 5, 6})));
  EXPECT_TRUE(identical(run_op_tensor({"Compress", {kGrid, condition}}), Tensor::from<float>({2}, {2, 3})));
  expect_error(ErrorKind::failed, "condition 2 is true, but there are only 2 entries",
               [&] { run_op({"Compress", {kGrid, condition}, {{"axis", std::int64_t{1}}}}); });
}

TEST(NonZero, ListsIndicesByAxis) {
  const Tensor x = Tensor::from<bool>({2, 2}, {true, false, true, true});
  EXPECT_TRUE(identical(run_op_tensor({"NonZero", {x}}), Tensor::from<std::int64_t>({2, 3}, {0, 1, 1, 0, 0, 1})));
  EXPECT_EQ(run_op_tensor({"NonZero", {Tensor::scalar(1.0f)}}).shape(), (Shape{0, 1}));
  EXPECT_EQ(infer_op("NonZero", {ir::ValueType::tensor(DType::f32, Shape{2, 2})})[0].dims, (ir::Dims{2, ir::Dim()}));
}

// The examples of the ONNX description.
TEST(Unique, SortedOrByFirstOccurrence) {
  const Tensor x = Tensor::from<float>({6}, {2, 1, 1, 3, 4, 3});
  const std::vector<Value> by_first = run_op({"Unique", {x}, {{"sorted", std::int64_t{0}}}, 4});
  EXPECT_TRUE(identical(by_first[0].tensor(), Tensor::from<float>({4}, {2, 1, 3, 4})));
  EXPECT_TRUE(identical(by_first[1].tensor(), list({0, 1, 3, 4})));
  EXPECT_TRUE(identical(by_first[2].tensor(), list({0, 1, 1, 2, 3, 2})));
  EXPECT_TRUE(identical(by_first[3].tensor(), list({1, 2, 2, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"Unique", {x}}), Tensor::from<float>({4}, {1, 2, 3, 4})));
}

TEST(Unique, SlicesAlongAnAxis) {
  const Tensor x = Tensor::from<float>({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
  const std::vector<Value> result = run_op({"Unique", {x}, {{"axis", std::int64_t{1}}}, 4});
  EXPECT_TRUE(identical(result[0].tensor(), Tensor::from<float>({2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1})));
  EXPECT_TRUE(identical(result[1].tensor(), list({1, 0, 2})));
  EXPECT_TRUE(identical(result[2].tensor(), list({1, 0, 2, 0})));
  EXPECT_TRUE(identical(result[3].tensor(), list({2, 1, 1})));
}

TEST(Unique, NaNsAreOneValueAndComeLast) {
  const std::vector<Value> result = run_op({"Unique", {Tensor::from<float>({3}, {NAN, 1, NAN})}, {}, 2});
  EXPECT_TRUE(close_to(result[0].tensor(), Tensor::from<float>({2}, {1, NAN})));
  EXPECT_TRUE(identical(result[1].tensor(), list({1, 0})));
}

TEST(TopK, TiesGoToTheLowerIndex) {
  const Tensor x = Tensor::from<std::int64_t>({2, 3}, {5, 9, 5, INT64_MAX, INT64_MAX - 1, 0});
  const std::vector<Value> largest = run_op({"TopK", {x, list({2})}, {}, 2});
  EXPECT_TRUE(identical(largest[0].tensor(), Tensor::from<std::int64_t>({2, 2}, {9, 5, INT64_MAX, INT64_MAX - 1})));
  EXPECT_TRUE(identical(largest[1].tensor(), Tensor::from<std::int64_t>({2, 2}, {1, 0, 0, 1})));
  const std::vector<Value> smallest =
      run_op({"TopK", {x, list({1})}, {{"largest", std::int64_t{0}}, {"axis", std::int64_t{0}}}, 2});
  EXPECT_TRUE(identical(smallest[1].tensor(), Tensor::from<std::int64_t>({1, 3}, {0, 0, 1})));
}

TEST(TopK, RefusesMoreThanThereIs) {
  expect_error(ErrorKind::invalid_model, "K is 3, expected at most the dimension, 2",
               [] { run_op({"TopK", {kGrid, list({3})}, {}, 2}); });
}

}  // namespace
}  // namespace tessera::test::select_test
