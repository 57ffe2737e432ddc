// Linear whose weights and bias are variables.
#include <gtest/gtest.h>

#include "support/random_tensor.h"
#include "support/variable_operands.h"

namespace tessera::backends::cpu::linear_variables_test {
namespace {

using test::random_tensor;

TEST(CpuLinearVariables, MatchTheReference) {
  struct Case {
    Shape x;
    std::int64_t outputs;
  };
  for (const auto& [x, outputs] : {Case{{1, 7}, 5}, {{3, 40}, 33}, {{2, 5, 96}, 70}, {{130, 65}, 64}}) {
    for (const bool transposed : {false, true}) {
      for (const bool rounded : {false, true}) {
        const Shape w = transposed ? Shape{outputs, x.back()} : Shape{x.back(), outputs};
        Shape y = x;
        y.back() = outputs;
        test::OpCall call{"tessera::Linear",
                          {random_tensor(DType::f32, x, 1), random_tensor(DType::f32, w, 2),
                           random_tensor(DType::f32, {outputs}, 3), random_tensor(DType::f32, y, 4)},
                          {{"transB", std::int64_t{transposed}}, {"activation", std::string("Relu")}}};
        if (rounded) call.attributes.emplace("precision", std::string("bf16"));
        SCOPED_TRACE(to_string(x) + " * " + to_string(w) + (rounded ? " in bf16" : ""));
        test::expect_variables_match_reference(call, 8 + static_cast<double>(x.back()));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::linear_variables_test
