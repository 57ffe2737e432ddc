#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::recurrent_test {
namespace {

// (7 i mod 11 - 5) / 10 for element i.
Tensor sequence(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>(i * 7 % 11 - 5) / 10.0f;
  }
  return tensor;
}

// Two directions, time 3, batch 2 (the second sequence is 2 long), two features, hidden size 2.
OpCall bidirectional(const std::string& op, std::int64_t gates) {
  OpCall call{op,
              {sequence({3, 2, 2}), sequence({2, gates * 2, 2}), sequence({2, gates * 2, 2}), sequence({2, gates * 4}),
               Tensor::from<std::int32_t>({2}, {3, 2}), sequence({2, 2, 2})},
              {{"direction", std::string("bidirectional")}, {"hidden_size", std::int64_t{2}}},
              2};
  if (op == "LSTM") {
    call.inputs.push_back(sequence({2, 2, 2}));
    call.inputs.push_back(sequence({2, 6}));
    call.outputs = 3;
  }
  return call;
}

const Tolerance kTolerance{.relative = 1e-5, .absolute = 1e-6};

// Expected values come from an independent implementation (onnxruntime 1.31.1).
TEST(Rnn, BothDirectionsWithLengths) {
  const std::vector<Value> y = run_op(bidirectional("RNN", 1));
  EXPECT_TRUE(close_to(y[1].tensor(),
                       Tensor::from<float>({2, 2, 2}, {-0.026649f, 0.886819f, -0.524876f, 0.802824f, 0.445950f,
                                                       -0.238221f, 0.359461f, -0.169288f}),
                       kTolerance));
  EXPECT_TRUE(close_to(
      y[0].tensor(),
      Tensor::from<float>({3, 2, 2, 2},
                          {-0.119427f, 0.800499f, -0.291313f, 0.856485f, 0.445950f, -0.238221f, 0.359461f, -0.169288f,
                           -0.530030f, 0.741649f, -0.524876f, 0.802824f, 0.642781f, -0.084518f, 0.522666f, 0.019997f,
                           -0.026649f, 0.886819f, 0,          0,         0.438199f, -0.396930f, 0,         0}),
      kTolerance));
}

TEST(Gru, BothFormsOfReset) {
  OpCall call = bidirectional("GRU", 3);
  EXPECT_TRUE(close_to(run_op(call)[1].tensor(),
                       Tensor::from<float>({2, 2, 2}, {0.011497f, -0.474397f, -0.071194f, -0.279535f, -0.643140f,
                                                       0.721225f, -0.348249f, 0.486681f}),
                       kTolerance));
  call.attributes["linear_before_reset"] = std::int64_t{1};
  EXPECT_TRUE(close_to(run_op(call)[1].tensor(),
                       Tensor::from<float>({2, 2, 2}, {0.080190f, -0.386127f, -0.036613f, -0.234105f, -0.587184f,
                                                       0.631964f, -0.279608f, 0.421417f}),
                       kTolerance));
}

TEST(Lstm, PeepholesClipAndCoupledGates) {
  OpCall call = bidirectional("LSTM", 4);
  EXPECT_TRUE(close_to(run_op(call)[2].tensor(),
                       Tensor::from<float>({2, 2, 2}, {0.312277f, -0.030718f, 0.227264f, 0.234248f, -0.650647f,
                                                       0.644045f, -0.288996f, 0.465368f}),
                       kTolerance));
  call.attributes["input_forget"] = std::int64_t{1};
  call.attributes["clip"] = 0.3f;
  EXPECT_TRUE(close_to(run_op(call)[1].tensor(),
                       Tensor::from<float>({2, 2, 2}, {0.065930f, -0.011503f, 0.054673f, 0.144358f, -0.106311f,
                                                       0.103919f, -0.037095f, 0.088433f}),
                       kTolerance));
}

TEST(Lstm, LayoutOneIsATranspose) {
  const Tensor w = sequence({1, 8, 2}), r = sequence({1, 8, 2});
  const Tensor first = run_op_tensor({"LSTM", {sequence({3, 1, 2}), w, r}, {}, 1});
  const Tensor second = run_op_tensor({"LSTM", {sequence({1, 3, 2}), w, r}, {{"layout", std::int64_t{1}}}, 1});
  EXPECT_EQ(second.shape(), (Shape{1, 3, 1, 2}));
  EXPECT_TRUE(identical(first.reshaped({6}), second.reshaped({6})));
}

TEST(Rnn, ActivationsTakeTheirParametersInTurn) {
  const Tensor x = Tensor::from<float>({1, 1, 1}, {2}), w = Tensor::from<float>({1, 1, 1}, {1});
  const Tensor r = Tensor::from<float>({1, 1, 1}, {0});
  const ir::Attributes affine{{"activations", std::vector<std::string>{"Affine"}},
                              {"activation_alpha", std::vector<float>{3}},
                              {"activation_beta", std::vector<float>{-1}}};
  EXPECT_TRUE(close_to(run_op_tensor({"RNN", {x, w, r}, affine}), Tensor::from<float>({1, 1, 1, 1}, {5})));
}

TEST(Lstm, KeepsSymbolicTimeAndBatch) {
  const ir::Dim time = ir::Dim::symbol("time"), batch = ir::Dim::symbol("batch");
  const auto types =
      infer_op("LSTM",
               {ir::ValueType::tensor(DType::f32, ir::Dims{time, batch, 5}),
                ir::ValueType::tensor(DType::f32, Shape{1, 12, 5}), ir::ValueType::tensor(DType::f32, Shape{1, 12, 3})},
               {}, 3);
  EXPECT_EQ(types[0], ir::ValueType::tensor(DType::f32, ir::Dims{time, 1, batch, 3}));
  EXPECT_EQ(types[2], ir::ValueType::tensor(DType::f32, ir::Dims{1, batch, 3}));
}

std::string error_of(const OpCall& call) {
  try {
    run_op(call);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  OpCall call = bidirectional("GRU", 3);
  call.inputs[4] = Tensor::from<std::int32_t>({2}, {3, 4});
  EXPECT_EQ(error_of(call), "sequence length 4 is outside [0, 3]");
  call = bidirectional("GRU", 3);
  call.inputs[1] = sequence({2, 8, 2});
  EXPECT_EQ(error_of(call), "'W' has shape [2, 8, 2], expected [2, 6, 2]");
  call = bidirectional("GRU", 3);
  call.attributes["activations"] = std::vector<std::string>{"Sigmoid", "Tanh", "Sigmoid"};
  EXPECT_EQ(error_of(call), "3 activations are given, expected 4");
  call.attributes["activations"] = std::vector<std::string>(4, "Step");
  EXPECT_EQ(error_of(call), "unknown activation 'Step'");
  call = bidirectional("GRU", 3);
  call.attributes["direction"] = std::string("backward");
  EXPECT_EQ(error_of(call), "direction is 'backward', expected forward, reverse or bidirectional");
}

}  // namespace
}  // namespace tessera::test::recurrent_test
