#include <gtest/gtest.h>

#include "ops/pooling/pooling_gradient.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"

namespace tessera::test::average_pool_gradient_test {
namespace {

using Integers = std::vector<std::int64_t>;

TEST(CpuAveragePoolGradient, MatchesReference) {
  const std::pair<Shape, ir::Attributes> cases[] = {
      {{2, 3, 6, 8}, {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}}},
      {{1, 5, 7, 9}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}}},
      {{1, 2, 11}, {{"kernel_shape", Integers{3}}, {"dilations", Integers{2}}, {"pads", Integers{3, 2}}}},
      {{1, 2, 4, 5, 6}, {{"kernel_shape", Integers{2, 3, 1}}, {"strides", Integers{1, 2, 3}}}},
      {{1, 130, 7, 7}, {{"kernel_shape", Integers{7, 7}}}},
      {{1, 2, 8, 8}, {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{3, 3}}, {"ceil_mode", std::int64_t{1}}}},
      {{1, 2, 5, 5}, {{"kernel_shape", Integers{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}}},
  };
  for (const auto& [shape, attributes] : cases) {
    const Shape pooled = run_op_tensor({"AveragePool", {random_tensor(DType::f32, shape, 1)}, attributes}).shape();
    const Tensor size = Tensor::from<std::int64_t>({static_cast<std::int64_t>(shape.size())}, std::span(shape));
    for (const char* flag : {"count_include_pad", "divide"}) {
      for (const std::int64_t value : {0, 1}) {
        ir::Attributes with = attributes;
        with[flag] = value;
        expect_matches_reference(
            {"tessera::AveragePoolGradient", {random_tensor(DType::f32, pooled, 2), size}, std::move(with)},
            Tolerance::epsilons(DType::f32, 8));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::average_pool_gradient_test
