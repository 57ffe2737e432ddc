#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::reverse_sequence_test {
namespace {

const Tensor kX = Tensor::from<std::string>({3, 2}, {"a", "A", "b", "B", "c", "C"});

TEST(ReverseSequence, TurnsThePrefixOfEachEntry) {
  EXPECT_TRUE(identical(run_op_tensor({"ReverseSequence", {kX, Tensor::from<std::int64_t>({2}, {3, 2})}}),
                        Tensor::from<std::string>({3, 2}, {"c", "B", "b", "A", "a", "C"})));
}

TEST(ReverseSequence, RefusesWrongLengths) {
  expect_error(ErrorKind::failed, "sequence length 4 is outside [0, 3]",
               [] { run_op({"ReverseSequence", {kX, Tensor::from<std::int64_t>({2}, {4, 1})}}); });
  expect_error(ErrorKind::invalid_model, "3 sequence lengths for a batch of 2",
               [] { run_op({"ReverseSequence", {kX, Tensor::from<std::int64_t>({3}, {1, 1, 1})}}); });
}

}  // namespace
}  // namespace tessera::test::reverse_sequence_test
