#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::cpu_top_k_test {
namespace {

TEST(CpuTopK, MatchesReference) {
  for (const Shape& shape : {Shape{1}, Shape{5, 3}, Shape{7, 100}, Shape{2, 3, 1000}, Shape{300, 257}, Shape{0, 9}}) {
    // Whole numbers tie often.
    for (const Tensor& x : {random_tensor(DType::f32, shape, 1, -9, 9), random_tensor(DType::i32, shape, 2, -9, 9)}) {
      Tensor values(DType::f32, shape);
      for (std::int64_t i = 0; i < x.elements(); ++i) {
        values.mutable_data<float>()[i] =
            x.dtype() == DType::f32 ? x.data<float>()[i] : static_cast<float>(x.data<std::int32_t>()[i]);
      }
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, shape.back()}) {
        if (k > shape.back()) continue;
        for (const std::int64_t largest : {0, 1}) {
          expect_matches_reference({"TopK", {values, Tensor::from<std::int64_t>({1}, {k})}, {{"largest", largest}}, 2});
        }
      }
    }
  }
}

TEST(CpuTopK, OrdersWhatIsNoNumberLikeTheReference) {
  const float x[] = {1, NAN, -INFINITY, 0, -0.0f, INFINITY, NAN, 2, 0, INFINITY, NAN, -3, 2, 7, 7, 7, 1, 1, 1};
  const Tensor values = Tensor::from<float>({19}, std::span<const float>(x));
  for (std::int64_t k = 1; k <= 19; ++k) {
    for (const std::int64_t largest : {0, 1})
      expect_matches_reference({"TopK", {values, Tensor::from<std::int64_t>({1}, {k})}, {{"largest", largest}}, 2});
  }
}

}  // namespace
}  // namespace tessera::test::cpu_top_k_test
