// Fourier transforms that become products.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::multiply_transforms_test {
namespace {

std::string graph(const std::string& dims, const std::string& inputs, const std::string& attributes,
                  const std::string& constants = "") {
  return fmt::format("graph {{ input %x : f32[{}] {} %y = DFT (%x{}) {} output %y }}", dims, constants, inputs,
                     attributes);
}
const std::string kFirst = "constant %first = i64[] {1} ";

TEST(MultiplyTransforms, OfFrames) {
  test::expect_rewritten(
      graph("4, 7, 12, 1", "", "{onesided = 1}"), "multiply_transforms",
      {"%? = Reshape (%x, %?)", "%? = MatMul (%?, %?)", "%? = Reshape (%?, %?)", "%y = Identity (%?)"});
  // Along another axis the data are turned.
  test::expect_rewritten(graph("3, 12, 7, 2", ", %n, %first", "", "constant %n = i64[] {12} " + kFirst),
                         "multiply_transforms",
                         {"%? = Transpose (%x) {perm = [0, 2, 1, 3]}", "%? = Reshape (%?, %?)", "%? = MatMul (%?, %?)",
                          "%? = Reshape (%?, %?)", "%? = Transpose (%?) {perm = [0, 2, 1, 3]}", "%y = Identity (%?)"});
}

// Whatever the length, its parity, the parts and the direction: cut off, or followed by zeros.
TEST(MultiplyTransforms, AgreesWithTheDefinition) {
  for (const std::string parts : {"1", "2"}) {
    for (const int length : {1, 5, 12, 17, 30}) {
      const std::string constants = fmt::format("constant %n = i64[] {{{}}} ", length) + kFirst;
      for (const std::string how : {"", "{inverse = 1}", "{onesided = 1}", "{inverse = 1, onesided = 1}"}) {
        const bool half = how.find("onesided") != std::string::npos, inverse = how.find("inverse") != std::string::npos;
        if (half && inverse != (parts == "2")) continue;
        const ir::Graph each = test::parsed(graph("3, 12, 2, " + parts, ", %n, %first", how, constants));
        test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(each)), "multiply_transforms");
      }
    }
  }
}

TEST(MultiplyTransforms, LeavesWhatIsLargeOrUnknown) {
  test::expect_left_alone(graph("2, 4096, 1", "", ""), "multiply_transforms");
  test::expect_left_alone(graph("1, 400, 1", "", ""), "multiply_transforms");  // one line
  test::expect_left_alone(graph("batch, time, 1", "", ""), "multiply_transforms");
  test::expect_left_alone("graph { input %x : f32[1, 8, 1] input %n : i64[] %y = DFT (%x, %n) output %y }",
                          "multiply_transforms");
}

}  // namespace
}  // namespace tessera::passes::multiply_transforms_test
