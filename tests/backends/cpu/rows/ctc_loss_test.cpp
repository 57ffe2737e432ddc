#include <gtest/gtest.h>

#include "base/numbers/philox.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::cpu_ctc_loss_test {
namespace {

TEST(CpuCtcLoss, MatchesReference) {
  struct Sizes {
    std::int64_t batch, time, classes, length;
  };
  for (const Sizes& sizes : {Sizes{1, 1, 2, 1}, Sizes{3, 7, 5, 3}, Sizes{4, 40, 29, 12}, Sizes{2, 3, 4, 6}}) {
    base::Philox numbers(7);
    Tensor labels(DType::i64, {sizes.batch, sizes.length});
    for (std::int64_t& label : labels.mutable_values<std::int64_t>())
      label = numbers.next_uniform() < 0.2 ? -100 : numbers.next_integer(1, sizes.classes - 1);
    const Tensor scores = random_tensor(DType::f32, {sizes.batch, sizes.time, sizes.classes}, 5, -4, 4);
    expect_matches_reference({"tessera::CtcLoss", {scores, labels}, {}, 2}, Tolerance::epsilons(DType::f32, 2));
    expect_matches_reference({"tessera::CtcLoss", {scores, labels}}, Tolerance::epsilons(DType::f32, 2));
  }
}

}  // namespace
}  // namespace tessera::test::cpu_ctc_loss_test
