#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::softmax_test {
namespace {

TEST(Softmax, NormalisesAlongAxis) {
  const Tensor x = Tensor::from<float>({2, 2}, {0.0f, 0.0f, 1.0f, 1.0f});
  const Tensor expected = Tensor::from<float>({2, 2}, {0.5f, 0.5f, 0.5f, 0.5f});
  EXPECT_TRUE(close_to(run_op_tensor({"Softmax", {x}}), expected, Tolerance::epsilons(DType::f32, 2)));
}

TEST(Softmax, KeepsSymbolicShape) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 10});
  EXPECT_EQ(infer_op("Softmax", {x})[0], x);
}

TEST(Softmax, RefusesAxisOutsideRank) {
  const Tensor x = Tensor::from<float>({2}, {0.0f, 1.0f});
  try {
    run_op({"Softmax", {x}, {{"axis", std::int64_t{3}}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    EXPECT_STREQ(error.what(), "axis 3 is outside [-1, 1) of a tensor of rank 1 (in node 'under_test' (Softmax))");
  }
}

TEST(LogSoftmax, SurvivesLargeValues) {
  const Tensor x = Tensor::from<float>({2, 1}, {1000.0f, 1000.0f});
  EXPECT_TRUE(close_to(run_op_tensor({"LogSoftmax", {x}, {{"axis", std::int64_t{0}}}}),
                       Tensor::from<float>({2, 1}, {-0.6931472f, -0.6931472f}), Tolerance::epsilons(DType::f32, 2)));
}

TEST(Hardmax, MarksTheFirstLargest) {
  const Tensor x = Tensor::from<float>({2, 3}, {1, 3, 3, 2, 0, 1});
  EXPECT_TRUE(identical(run_op_tensor({"Hardmax", {x}}), Tensor::from<float>({2, 3}, {0, 1, 0, 1, 0, 0})));
}

}  // namespace
}  // namespace tessera::test::softmax_test
