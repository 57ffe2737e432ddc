#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test {
namespace {

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(Col2Im, OverlappingBlocksAdd) {
  const Tensor columns = Tensor::from<float>({1, 2, 3}, {1, 2, 3, 10, 20, 30});
  EXPECT_TRUE(identical(run_op_tensor({"Col2Im", {columns, list({4}), list({2})}}),
                        Tensor::from<float>({1, 1, 4}, {1, 12, 23, 30})));
  const ir::Attributes padded = {{"pads", std::vector<std::int64_t>{1, 1}}};
  EXPECT_TRUE(identical(run_op_tensor({"Col2Im", {columns, list({2}), list({2})}, padded}),
                        Tensor::from<float>({1, 1, 2}, {12, 23})));
}

TEST(Col2Im, RefusesWhatDoesNotFit) {
  const Tensor columns(DType::f32, {1, 2, 3});
  expect_error(ErrorKind::invalid_model, "input is [1, 2, 3], expected [N, a multiple of 2, 4]", [&] {
    run_op({"Col2Im", {columns, list({5}), list({2})}});
  });
  expect_error(ErrorKind::invalid_model, "a block of 6 does not fit into an image of 5 at axis 0", [&] {
    run_op({"Col2Im", {columns, list({5}), list({6})}});
  });
  expect_error(ErrorKind::invalid_model, "attribute 'strides' has the entry 0", [&] {
    run_op({"Col2Im", {columns, list({4}), list({2})}, {{"strides", std::vector<std::int64_t>{0}}}});
  });
}

}  // namespace
}  // namespace tessera::test
