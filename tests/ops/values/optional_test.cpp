#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::optional_test {
namespace {

const Tensor kA = Tensor::from<float>({2}, {1, 2});

TEST(Optional, HoldsAValueOrNone) {
  const Value full = run_op({"Optional", {kA}})[0];
  EXPECT_TRUE(identical(run_op_tensor({"OptionalHasElement", {full}}), Tensor::scalar(true)));
  EXPECT_TRUE(identical(run_op_tensor({"OptionalHasElement", {}}), Tensor::scalar(false)));
  EXPECT_TRUE(identical(run_op_tensor({"OptionalGetElement", {full}}), kA));
  EXPECT_EQ(infer_op("Optional", {ir::ValueType::tensor(DType::f32)})[0],
            ir::ValueType::optional(ir::ValueType::tensor(DType::f32)));
}

TEST(Optional, RefusesToGiveWhatIsNotThere) {
  const Value none = run_op({"Optional", {}, {{"type", ir::ValueType::tensor(DType::f32)}}})[0];
  EXPECT_FALSE(none.has_value());
  expect_error(ErrorKind::invalid_model, "neither an input nor attribute 'type' is given",
               [] { run_op({"Optional", {}}); });
}

}  // namespace
}  // namespace tessera::test::optional_test
