#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::layer_normalisation_gradient_kernel_test {
namespace {

TEST(CpuLayerNormalizationGradient, MatchesReference) {
  for (const auto& [shape, axis] : {std::pair{Shape{5, 3}, 1},
                                    {Shape{1}, 0},
                                    {Shape{700, 33}, -1},
                                    {Shape{3, 4, 67}, -1},
                                    {Shape{2, 3, 4, 5}, 2},
                                    {Shape{6, 5000}, 1},
                                    {Shape{2000, 16}, 1}}) {
    const auto first = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis);
    const Shape row(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end());
    for (const std::string op : {"LayerNormalization", "RMSNormalization"}) {
      expect_matches_reference({"tessera::" + op + "Gradient",
                                {random_tensor(DType::f32, shape, 1), random_tensor(DType::f32, shape, 2, -1, 3),
                                 random_tensor(DType::f32, row, 3, 0.5, 2)},
                                {{"axis", std::int64_t{axis}}, {"epsilon", 0.01f}},
                                op == "LayerNormalization" ? std::size_t{3} : std::size_t{2}},
                               Tolerance::epsilons(DType::f32, 256));
    }
  }
}

}  // namespace
}  // namespace tessera::test::layer_normalisation_gradient_kernel_test
