#include <gtest/gtest.h>

#include "support/run_op.h"
#include "tessera/error.h"

namespace tessera::test::flex_attention_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

ir::SubgraphPointer relu_of_scores() {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId scores = graph->add_input("scores", {});
  graph->add_output(graph->add_op("Relu", {scores}));
  return graph;
}

TEST(FlexAttention, KeepsSymbolicBatchAndLength) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType q = ValueType::tensor(DType::f16, Dims{batch, 4, length, 8});
  const ValueType k = ValueType::tensor(DType::f16, Dims{batch, 2, 5, 8}),
                  v = ValueType::tensor(DType::f16, Dims{batch, 2, 5, 3});
  EXPECT_EQ(infer_op("ai.onnx.preview::FlexAttention", {q, k, v}, {{"score_mod", relu_of_scores()}})[0],
            ValueType::tensor(DType::f16, Dims{batch, 4, length, 3}));
}

TEST(FlexAttention, RefusesWhatDoesNotFit) {
  const ValueType q = ValueType::tensor(DType::f32, Shape{1, 3, 2, 8}),
                  k = ValueType::tensor(DType::f32, Shape{1, 2, 5, 8});
  try {
    infer_op("ai.onnx.preview::FlexAttention", {q, k, k});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "3 query heads are not a multiple of 2 key heads");
  }
  try {
    infer_op("ai.onnx.preview::FlexAttention", {q, q, q}, {{"softmax_precision", std::int64_t{7}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "softmax_precision is 7, expected the number of a float type");
  }
}

}  // namespace
}  // namespace tessera::test::flex_attention_test
