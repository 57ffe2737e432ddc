#include <gtest/gtest.h>

#include <complex>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::col2im_test {
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

TEST(Col2Im, MovesStringsAndAddsComplexNumbersAndBools) {
  const Tensor words = Tensor::from<std::string>({1, 2, 2}, {"a", "b", "c", "d"});
  const ir::Attributes apart = {{"strides", std::vector<std::int64_t>{3}}};
  EXPECT_TRUE(identical(run_op_tensor({"Col2Im", {words, list({5}), list({2})}, apart}),
                        Tensor::from<std::string>({1, 1, 5}, {"a", "c", "", "b", "d"})));
  expect_error(ErrorKind::unsupported, "blocks of strings overlap, and strings have no sum",
               [&] { run_op({"Col2Im", {words, list({3}), list({2})}}); });
  const auto pairs = Tensor::from<std::complex<float>>({1, 2, 2}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  EXPECT_TRUE(identical(run_op_tensor({"Col2Im", {pairs, list({3}), list({2})}}),
                        Tensor::from<std::complex<float>>({1, 1, 3}, {{1, 2}, {8, 10}, {7, 8}})));
  EXPECT_TRUE(identical(
      run_op_tensor({"Col2Im", {Tensor::from<bool>({1, 2, 2}, {false, true, true, false}), list({3}), list({2})}}),
      Tensor::from<bool>({1, 1, 3}, {false, true, false})));
}

TEST(Col2Im, RefusesWhatDoesNotFit) {
  const Tensor columns(DType::f32, {1, 2, 3});
  expect_error(ErrorKind::invalid_model, "input is [1, 2, 3], expected [N, a multiple of 2, 4]",
               [&] { run_op({"Col2Im", {columns, list({5}), list({2})}}); });
  expect_error(ErrorKind::invalid_model, "a block of 6 does not fit into an image of 5 at axis 0",
               [&] { run_op({"Col2Im", {columns, list({5}), list({6})}}); });
  expect_error(ErrorKind::invalid_model, "attribute 'strides' has the entry 0", [&] {
    run_op({"Col2Im", {columns, list({4}), list({2})}, {{"strides", std::vector<std::int64_t>{0}}}});
  });
}

}  // namespace
}  // namespace tessera::test::col2im_test
