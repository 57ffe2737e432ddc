#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::dft_test {
namespace {

const Tolerance kSums{1e-5, 1e-5};

OpCall transform(const Tensor& x, std::int64_t axis, bool inverse, bool onesided, Value length = {}) {
  return {"DFT",
          {x, std::move(length), Tensor::scalar(axis)},
          {{"inverse", std::int64_t{inverse}}, {"onesided", std::int64_t{onesided}}}};
}

TEST(CpuDft, MatchesTheDefinitionForEveryKindOfLength) {
  // Powers of two, primes, products of both, and 1.
  for (std::int64_t length : {1, 2, 3, 7, 8, 10, 12, 15, 31, 60}) {
    SCOPED_TRACE("length " + std::to_string(length));
    const Tensor complex = random_tensor(DType::f32, {2, length, 3, 2}, 1),
                 real = random_tensor(DType::f32, {2, length, 1}, 2);
    expect_matches_reference(transform(complex, 1, false, false), kSums);
    expect_matches_reference(transform(complex, 1, true, false), kSums);
    expect_matches_reference(transform(real, 1, false, true), kSums);
  }
}

TEST(CpuDft, CutsAndPadsToTheLength) {
  const Tensor x = random_tensor(DType::f32, {1, 9, 2}, 3);
  for (std::int64_t length : {4, 16})
    expect_matches_reference(transform(x, 1, false, false, Tensor::scalar(length)), kSums);
}

}  // namespace
}  // namespace tessera::test::dft_test
