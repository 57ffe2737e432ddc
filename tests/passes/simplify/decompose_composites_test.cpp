// Composites become simpler operators, unless the device has kernels of its own for them.
#include "passes/simplify/decompose_composites.h"

#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::decompose_composites_test {
namespace {

using Ops = std::vector<std::string>;

const std::string kProduct =
    "graph { input %x : f32[batch, 3] input %w : f32[4, 3] "
    "%y = com.microsoft::FusedMatMul (%x, %w) {alpha = 0.5, transB = 1} output %y }";
const std::string kNormalised =
    "graph { input %x : f32[2, 3, 8] input %z : f32[2, 3, 8] constant %g = f32[8] {1, 2, 3, 4, 5, 6, 7, 8} "
    "%y = com.microsoft::SkipSimplifiedLayerNormalization (%x, %z, %g) output %y }";

TEST(DecomposeComposites, IntoSimplerOperators) {
  const ir::Graph graph = decompose_composites(test::parsed(kProduct), test::cpu_pass_context());
  EXPECT_EQ(test::ops_of(graph), (Ops{"Transpose", "MatMul", "Mul", "Identity"}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "y");
}

TEST(DecomposeComposites, LeavesThoseThatTheDeviceHasKernelsFor) {
  test::expect_left_alone(kNormalised, "decompose_composites");
  PassContext context = test::cpu_pass_context();
  context.keeps_composite = nullptr;  // a device that has none
  for (const std::string& op : test::ops_of(decompose_composites(test::parsed(kNormalised), context)))
    EXPECT_FALSE(op.starts_with("com.microsoft::")) << op;
}

TEST(DecomposeComposites, ProductsApartFromTheirActivation) {
  PassContext context = test::cpu_pass_context();
  context.keeps_composite = nullptr;
  const Ops ops = test::ops_of(decompose_composites(
      test::parsed("graph { input %x : f32[2, 3] input %w : f32[3, 4] input %b : f32[4] "
                   "%y = com.microsoft::FusedGemm (%x, %w, %b) {activation = \"Relu\"} output %y }"),
      context));
  EXPECT_EQ(ops, (Ops{"Gemm", "Relu", "Identity"}));
}

TEST(DecomposeComposites, LeavesWhatItsTypesDoNotSayEnoughOf) {
  test::expect_left_alone(
      "graph { input %x : f32[*] input %w : f32[4, 3] "
      "%y = com.microsoft::FusedMatMul (%x, %w) {transB = 1} output %y }",
      "decompose_composites");
}

TEST(DecomposeComposites, LeavesPrimitives) {
  test::expect_left_alone("graph { input %x : f32[2, 3] input %w : f32[3, 4] %y = MatMul (%x, %w) output %y }",
                          "decompose_composites");
}

TEST(DecomposeComposites, OneNodeAlone) {
  ir::Graph graph = test::parsed(kProduct);
  EXPECT_TRUE(decompose_node(graph, graph.order()[0]));
  ir::Graph unknown =
      test::parsed("graph { input %x : f32[*] input %w : f32[*] %y = com.microsoft::FusedMatMul (%x, %w) output %y }");
  EXPECT_FALSE(decompose_node(unknown, unknown.order()[0]));
}

// Operators of ai.onnx.ml that have kernels on the reference device, which says what their parts must give.
TEST(DecomposeComposites, PreparationOfFeatures) {
  const std::string columns = " constant %c = i64[2, 2] {2, 0, -1, 1}";
  const std::string nodes[] = {
      "ai.onnx.ml::Imputer (%x) {imputed_value_floats = [1.5, 2.5, 3.5], replaced_value_float = 1.0}",
      "ai.onnx.ml::Imputer (%v) {imputed_value_floats = [1.5]}",
      "ai.onnx.ml::Imputer (%i) {imputed_value_int64s = [7, 8, 9], replaced_value_int64 = 1}",
      "ai.onnx.ml::Binarizer (%x) {threshold = 0.5}",
      "ai.onnx.ml::Binarizer (%i) {threshold = 0.5}",
      "ai.onnx.ml::ArrayFeatureExtractor (%x, %c)",
      "ai.onnx.ml::ArrayFeatureExtractor (%v, %c)",
      "ai.onnx.ml::FeatureVectorizer (%x, %z)",
      "ai.onnx.ml::FeatureVectorizer (%v, %v)"};
  for (const std::string& node : nodes) {
    const std::string text = "graph { input %z : f32[5, 3] input %v : f32[3] input %i : i64[5, 3] %x = Round (%z)" +
                             columns + " %y = " + node + " output %y }";
    SCOPED_TRACE(text);
    for (const std::string& op : test::ops_of(decompose_composites(test::parsed(text), test::cpu_pass_context())))
      EXPECT_FALSE(op.starts_with("ai.onnx.ml::")) << op;
    test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(test::parsed(text))), "decompose_composites", 0);
  }
}

}  // namespace
}  // namespace tessera::passes::decompose_composites_test
