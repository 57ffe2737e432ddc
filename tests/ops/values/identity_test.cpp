#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::identity_test {
namespace {

const Tensor kX = Tensor::from<float>({4}, {1, 2, 3, 4});

TEST(Identity, PassesAnyValue) {
  EXPECT_TRUE(identical(run_op_tensor({"Identity", {kX}}), kX));
  const Tensor text = Tensor::from<std::string>({2}, {"a", "b"});
  EXPECT_TRUE(identical(run_op_tensor({"Identity", {text}}), text));
  const std::vector<Value> outputs = run_op({"Identity", {Value::sequence({kX, kX})}});
  ASSERT_EQ(outputs[0].kind(), Value::Kind::sequence);
  EXPECT_EQ(outputs[0].elements().size(), 2u);
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const std::vector<Value> outputs = run_op({"Dropout", {kX}, {}, 2});
  EXPECT_TRUE(identical(outputs[0].tensor(), kX));
  EXPECT_TRUE(identical(outputs[1].tensor(), Tensor::from<bool>({4}, {true, true, true, true})));
}

TEST(Dropout, DropsBySeedInTraining) {
  const Tensor x(DType::f32, {1000});
  std::fill_n(const_cast<Tensor&>(x).mutable_data<float>(), 1000, 3.0f);
  const OpCall call{"Dropout", {x, Tensor::scalar(0.25f), Tensor::scalar(true)}, {{"seed", std::int64_t{7}}}, 2};
  const std::vector<Value> first = run_op(call);
  EXPECT_TRUE(identical(first[0].tensor(), run_op(call)[0].tensor()));
  int kept = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const bool keep = first[1].tensor().data<bool>()[i];
    kept += keep ? 1 : 0;
    EXPECT_EQ(first[0].tensor().data<float>()[i], keep ? 4.0f : 0.0f);
  }
  EXPECT_NEAR(kept, 750, 60);
}

TEST(Dropout, RefusesBadRatios) {
  expect_error(ErrorKind::invalid_argument, "ratio is 1, expected a number in [0, 1)",
               [] { run_op({"Dropout", {kX, Tensor::scalar(1.0f), Tensor::scalar(true)}}); });
}

}  // namespace
}  // namespace tessera::test::identity_test
