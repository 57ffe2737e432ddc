#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test::dynamic_quantize_lstm_test {
namespace {

using ir::Attributes;
using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kOp = "com.microsoft::DynamicQuantizeLSTM";
const Attributes kHidden{{"hidden_size", std::int64_t{2}}};

// One step of a batch of two, from states of zeros. X has scale 1, so that its quantisation loses nothing.
TEST(DynamicQuantizeLSTM, IsLSTMWhereQuantisationLosesNothing) {
  const Tensor x = Tensor::from<float>({1, 2, 2}, {255, 3, 0, 17});
  const Tensor w = Tensor::from<std::int8_t>({1, 2, 8}, {1, -2, 3, 0, 2, 1, -1, 4, 9, 8, -7, 6, 5, -4, 3, 2}),
               r = Tensor::from<std::int8_t>({1, 2, 8}, std::span<const std::int8_t>(std::vector<std::int8_t>(16, 1)));
  const Tensor w_scale = Tensor::from<float>({1}, {0.0078125f}), zero = Tensor::from<std::int8_t>({1}, {1});
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const auto constant = [&](const Tensor& tensor) { return builder.constant(tensor); };
  const ir::ValueId data = graph->add_input("x", ValueType::tensor(DType::f32, Dims{1, Dim::symbol("batch"), 2})), none;
  const auto quantised = builder.add_multi(kOp,
                                           {data, constant(w), constant(r), none, none, none, none, none,
                                            constant(w_scale), constant(zero), constant(w_scale), constant(zero)},
                                           3, kHidden);
  // The same weights as real numbers, transposed.
  const auto real = [&](const Tensor& tensor) {
    return builder.add("Transpose",
                       {builder.add("DequantizeLinear", {constant(tensor), constant(w_scale), constant(zero)})},
                       {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  };
  const auto exact = builder.add_multi("LSTM", {data, real(w), real(r)}, 3, kHidden);
  for (std::size_t i = 0; i < 3; ++i) {
    graph->value(quantised[i]).name = fmt::format("quantised{}", i);
    graph->value(exact[i]).name = fmt::format("exact{}", i);
    graph->add_output(quantised[i]);
    graph->add_output(exact[i]);
  }
  Session session{Model(graph)};
  const NamedValues outputs = session.run({{"x", x}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(close_to(outputs.at(fmt::format("quantised{}", i)).tensor(),
                         outputs.at(fmt::format("exact{}", i)).tensor(), Tolerance::epsilons(DType::f32, 16)))
        << i;
  }
}

std::vector<ValueType> types(std::int64_t directions) {
  const auto bytes = [](const Shape& shape) { return ValueType::tensor(DType::u8, shape); };
  const auto real = [](const Shape& shape) { return ValueType::tensor(DType::f32, shape); };
  return {ValueType::tensor(DType::f32, Dims{Dim::symbol("length"), Dim::symbol("batch"), 3}),
          bytes({directions, 3, 8}),
          bytes({directions, 2, 8}),
          real({directions, 16}),
          ValueType::tensor(DType::i32, Dims{Dim::symbol("batch")}),
          ValueType::tensor(DType::f32, Dims{directions, Dim::symbol("batch"), 2}),
          ValueType::tensor(DType::f32, Dims{directions, Dim::symbol("batch"), 2}),
          real({directions, 6}),
          real({directions}),
          bytes({directions}),
          real({directions, 8}),
          bytes({directions, 8})};
}

TEST(DynamicQuantizeLSTM, KeepsSymbolicShapes) {
  Attributes attributes = kHidden;
  attributes["direction"] = std::string("bidirectional");
  const Dim length = Dim::symbol("length"), batch = Dim::symbol("batch");
  const auto outputs = infer_op(kOp, types(2), attributes, 3);
  EXPECT_EQ(outputs[0], ValueType::tensor(DType::f32, Dims{length, 2, batch, 2}));
  EXPECT_EQ(outputs[2], ValueType::tensor(DType::f32, Dims{2, batch, 2}));
}

TEST(DynamicQuantizeLSTM, RefusesWhatDoesNotFit) {
  expect_error(ErrorKind::invalid_model, "'W' has shape [2, 3, 8], expected [1, 3, 8]",
               [] { infer_op(kOp, types(2), kHidden, 3); });
  std::vector<ValueType> scaled = types(1);
  scaled[8] = ValueType::tensor(DType::f32, Shape{1, 4});
  expect_error(ErrorKind::invalid_model, "'W_scale' has shape [1, 4], expected [1, 8]",
               [&] { infer_op(kOp, scaled, kHidden, 3); });
  expect_error(ErrorKind::invalid_model, "attribute 'hidden_size' is missing", [] { infer_op(kOp, types(1), {}, 3); });
}

}  // namespace
}  // namespace tessera::test::dynamic_quantize_lstm_test
