// Outputs that take the place of an operand: what is read again must still be there.
#include <gtest/gtest.h>

#include "support/pass_context.h"
#include "tessera/session.h"

namespace tessera::test::in_place_test {
namespace {

Tensor run_on_cpu(const std::string& text, const Tensor& x) {
  return Session(Model(std::make_shared<const ir::Graph>(parsed(text)))).run({{"x", x}}).find("y")->second.tensor();
}

TEST(InPlace, ASumOfManyReadsAnOperandThatComesAgain) {
  const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
  const Tensor y = run_on_cpu(R"(graph {
    input %x : f32[4]
    constant %one = f32[4] {10, 20, 30, 40}
    %a = Neg (%x)
    %s = Sum (%a, %one, %a)
    %y = Neg (%s)
    output %y
  })",
                              x);
  EXPECT_TRUE(identical(y, Tensor::from<float>({4}, {-8, -16, -24, -32})));
}

TEST(InPlace, ASumOfAValueWithItself) {
  const Tensor y = run_on_cpu("graph { input %x : f32[2] %a = Neg (%x) %s = Add (%a, %a) %y = Neg (%s) output %y }",
                              Tensor::from<float>({2}, {1, 2}));
  EXPECT_TRUE(identical(y, Tensor::from<float>({2}, {2, 4})));
}

}  // namespace
}  // namespace tessera::test::in_place_test
