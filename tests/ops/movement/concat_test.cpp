#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::concat_test {
namespace {

const Tensor kA = Tensor::from<std::string>({2, 1}, {"a", "b"});
const Tensor kB = Tensor::from<std::string>({2, 2}, {"c", "d", "e", "f"});

ir::Attributes axis(std::int64_t value) {
  return {{"axis", value}};
}

TEST(Concat, JoinsAlongAxis) {
  EXPECT_TRUE(identical(run_op_tensor({"Concat", {kA, kB}, axis(-1)}),
                        Tensor::from<std::string>({2, 3}, {"a", "c", "d", "b", "e", "f"})));
}

TEST(Concat, KeepsSymbolsAndTakesWhatIsKnown) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3, ir::Dim()});
  const ir::ValueType y = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 4, 5});
  EXPECT_EQ(infer_op("Concat", {x, y}, axis(1))[0].dims, (ir::Dims{ir::Dim::symbol("batch"), 7, 5}));
}

TEST(Concat, RefusesOtherShapes) {
  expect_error(ErrorKind::invalid_model, "cannot join [2, 1] and [2, 2] along axis 0: axis 1 differs",
               [] { run_op({"Concat", {kA, kB}, axis(0)}); });
}

TEST(Split, EvenWithASmallerLastPart) {
  const Tensor x = Tensor::from<std::int64_t>({5}, {1, 2, 3, 4, 5});
  const std::vector<Value> parts = run_op({"Split", {x}, {{"num_outputs", std::int64_t{2}}}, 2});
  EXPECT_TRUE(identical(parts[0].tensor(), Tensor::from<std::int64_t>({3}, {1, 2, 3})));
  EXPECT_TRUE(identical(parts[1].tensor(), Tensor::from<std::int64_t>({2}, {4, 5})));
}

TEST(Split, GivenSizes) {
  const std::vector<Value> parts = run_op({"Split", {kB, Tensor::from<std::int64_t>({2}, {0, 2})}, axis(1), 2});
  EXPECT_EQ(parts[0].tensor().shape(), (Shape{2, 0}));
  EXPECT_TRUE(identical(parts[1].tensor(), kB));
}

TEST(Split, RefusesWrongSizes) {
  expect_error(ErrorKind::invalid_model, "the parts add up to 3, but the dimension is 2",
               [] { run_op({"Split", {kB, Tensor::from<std::int64_t>({2}, {1, 2})}, axis(1), 2}); });
  expect_error(ErrorKind::invalid_model, "cannot split a dimension of 2 into 4 parts of 1",
               [] { run_op({"Split", {kB}, {{"num_outputs", std::int64_t{4}}}, 4}); });
}

}  // namespace
}  // namespace tessera::test::concat_test
