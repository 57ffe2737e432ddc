#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::scatter_test {
namespace {

const Tensor kLine = Tensor::from<float>({1, 5}, {1, 2, 3, 4, 5});
ir::Attributes reduction(const char* name) {
  return {{"reduction", std::string(name)}};
}

Tensor scatter_elements(const char* how) {
  return run_op_tensor(
      {"ScatterElements",
       {kLine, Tensor::from<std::int64_t>({1, 3}, {1, -4, 3}), Tensor::from<float>({1, 3}, {7, 3, -1})},
       {{"axis", std::int64_t{1}}, {"reduction", std::string(how)}}});
}

TEST(ScatterElements, Reductions) {
  EXPECT_TRUE(identical(scatter_elements("none"), Tensor::from<float>({1, 5}, {1, 3, 3, -1, 5})));
  EXPECT_TRUE(identical(scatter_elements("add"), Tensor::from<float>({1, 5}, {1, 12, 3, 3, 5})));
  EXPECT_TRUE(identical(scatter_elements("mul"), Tensor::from<float>({1, 5}, {1, 42, 3, -4, 5})));
  EXPECT_TRUE(identical(scatter_elements("max"), Tensor::from<float>({1, 5}, {1, 7, 3, 4, 5})));
  EXPECT_TRUE(identical(scatter_elements("min"), Tensor::from<float>({1, 5}, {1, 2, 3, -1, 5})));
  expect_error(ErrorKind::invalid_model, "reduction is 'sub', expected none, add, mul, max or min",
               [] { scatter_elements("sub"); });
}

TEST(ScatterElements, RefusesBadOperands) {
  const Tensor two = Tensor::from<float>({1, 2}, {0, 0});
  expect_error(ErrorKind::failed, "index 5 is outside [-5, 5)", [&] {
    run_op({"ScatterElements", {kLine, Tensor::from<std::int64_t>({1, 2}, {0, 5}), two}, {{"axis", std::int64_t{1}}}});
  });
  expect_error(ErrorKind::invalid_model, "updates has dimension 2 at axis 1, expected 1",
               [&] { run_op({"ScatterElements", {kLine, Tensor::from<std::int64_t>({1, 1}, {0}), two}}); });
}

TEST(ScatterND, WritesSlices) {
  const Tensor data = Tensor::from<std::int8_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor indices = Tensor::from<std::int64_t>({2, 1}, {2, 0}),
               updates = Tensor::from<std::int8_t>({2, 2}, {100, 100, 9, 9});
  EXPECT_TRUE(identical(run_op_tensor({"ScatterND", {data, indices, updates}}),
                        Tensor::from<std::int8_t>({3, 2}, {9, 9, 3, 4, 100, 100})));
  EXPECT_TRUE(identical(run_op_tensor({"ScatterND", {data, indices, updates}, reduction("add")}),
                        Tensor::from<std::int8_t>({3, 2}, {10, 11, 3, 4, 105, 106})));
  expect_error(ErrorKind::invalid_model, "updates has rank 1, expected 2",
               [&] { run_op({"ScatterND", {data, indices, updates.reshaped({4})}}); });
}

TEST(TensorScatter, LinearAndCircular) {
  const Tensor cache = Tensor::from<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6}),
               update = Tensor::from<float>({2, 2, 1}, {7, 8, 9, 10});
  EXPECT_TRUE(identical(run_op_tensor({"TensorScatter", {cache, update, Tensor::from<std::int64_t>({2}, {1, 0})}}),
                        Tensor::from<float>({2, 3, 1}, {1, 7, 8, 9, 10, 6})));
  EXPECT_TRUE(identical(run_op_tensor({"TensorScatter",
                                       {cache, update, Tensor::from<std::int64_t>({2}, {2, 4})},
                                       {{"mode", std::string("circular")}}}),
                        Tensor::from<float>({2, 3, 1}, {8, 2, 7, 4, 9, 10})));
  expect_error(ErrorKind::failed, "write index 2 with 2 steps is outside a cache of 3",
               [&] { run_op({"TensorScatter", {cache, update, Tensor::from<std::int64_t>({2}, {2, 0})}}); });
}

}  // namespace
}  // namespace tessera::test::scatter_test
