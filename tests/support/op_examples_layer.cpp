// Convolutions, pooling, recurrent nets, embeddings, optimisers.
#include "support/op_examples.h"

namespace tessera::test {

std::vector<OpExample> layer_examples() {
  const ExampleOperand image = at({1, 2, 5, 5}), filter = at({2, 2, 3, 3}), biases = at({2}, {0.5, 1});
  const ExampleOperand steps = at({3, 2, 2}), none = absent;
  const ExampleOperand lengths = as(DType::i32, at({2}, {3, 2})), state = at({1, 2, 3});
  const ir::Attribute three = whole(3), pair = whole_list({2, 2});
  const auto weights = [](std::int64_t gates, std::int64_t columns) { return at({1, gates * 3, columns}, {0.5, 0.25, -0.5}); };
  const auto words = [](std::vector<double> values) { return at({1, 2}, std::move(values)); };
  return {
      {"Conv", {image, filter, biases}},
      {"Conv", {image, at({2, 1, 3, 3})}, {{"group", whole(2)}, {"pads", whole_list({1, 1, 1, 1})}}},
      {"Conv", {at({1, 4, 7}), at({6, 4, 1})}, {{"strides", whole_list({2})}}},
      {"com.microsoft::FusedConv", {image, filter, biases, at({1, 2, 3, 3})}, {{"activation", text("Relu")}}},
      {"tessera::ChannelsLastConv", {at({1, 5, 5, 2}), filter, biases, at({1, 3, 3, 2})}, {{"activation", text("Relu")}}, 1, {}, {"X", "W", "Z"}},
      {"tessera::ChannelsLastConv", {at({1, 5, 5, 2}), at({2, 1, 3, 3})}, {{"group", whole(2)}, {"pads", whole_list({1, 1, 1, 1})}}, 1, {}, {"X", "W"}},
      {"tessera::ChannelsLastConv", {as(DType::bf16, at({1, 5, 5, 2})), as(DType::f32, filter)}, {{"precision", text("bf16")}, {"output_dtype", code_of(DType::bf16)}}},
      {"tessera::ChannelsLastConv", {as(DType::bf16, at({1, 5, 5, 2})), as(DType::f32, filter), as(DType::f32, biases), as(DType::bf16, at({1, 3, 3, 2}))}, {{"precision", text("bf16")}}},
      {"tessera::ChannelsLastMaxPool", {at({1, 5, 5, 2})}, {{"kernel_shape", pair}}},
      {"tessera::ChannelsLastAveragePool", {at({1, 5, 5, 2})}, {{"kernel_shape", pair}, {"pads", whole_list({1, 1, 1, 1})}}},
      {"tessera::ConvChain",
       {as(DType::f32, at({1, 5, 5, 2})), as(DType::f32, filter), as(DType::f32, biases), as(DType::f32, at({2, 1, 3, 3}))},
       {{"operands", whole_list({0, 1, 2, -1, 4, 3, -1, 4})}, {"windows", whole_list({1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2})}, {"activations", text_list({"Relu", ""})}, {"parameters", real_list({0, 0, 0, 0})}}},
      {"tessera::ConvChain",
       {as(DType::bf16, at({1, 5, 5, 2})), as(DType::f32, filter), as(DType::f32, at({2, 1, 3, 3}))},
       {{"operands", whole_list({0, 1, -1, -1, 3, 2, -1, 3})}, {"windows", whole_list({1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2})}, {"activations", text_list({"Relu", ""})}, {"parameters", real_list({0, 0, 0, 0})},
        {"precisions", text_list({"bf16", "bf16"})}, {"output_dtypes", whole_list({static_cast<std::int64_t>(DType::bf16), static_cast<std::int64_t>(DType::bf16)})}}},
      {"tessera::ChannelsLastConvTranspose", {at({1, 5, 5, 2}), at({2, 3, 2, 2}), at({3})}, {{"strides", pair}, {"activation", text("Relu")}}},
      {"tessera::Linear", {at({2, 3, 4}), at({4, 2}), at({2}), at({2, 3, 2})}, {{"activation", text("Relu")}}, 1, {}, {"X", "W", "Z"}},
      {"tessera::Linear", {at({2, 3, 4}), at({5, 12}), at({5})}, {{"axis", whole(1)}, {"transB", whole(1)}}, 1, {}, {"X", "W"}},
      {"ConvTranspose", {image, filter, biases}, {{"strides", pair}}},
      {"com.microsoft::ConvTransposeWithDynamicPads", {image, filter, integers({1, 1, 1, 1}), biases}},
      {"DeformConv", {image, filter, at({1, 18, 3, 3}, {0.5, 0, -1}), biases, at({1, 9, 3, 3}, {1, 0.5})}},
      {"CausalConvWithState", {at({1, 2, 4}), at({2, 1, 3}), biases, at({1, 2, 2})}, {{"activation", text("silu")}}, 2},
      {"AveragePool", {image}, {{"kernel_shape", pair}, {"pads", whole_list({1, 1, 1, 1})}}},
      {"LpPool", {image}, {{"kernel_shape", pair}}},
      {"MaxPool", {image}, {{"kernel_shape", pair}}},
      {"MaxPool", {image}, {{"kernel_shape", pair}, {"pads", whole_list({1, 1, 0, 0})}}, 2},
      {"MaxUnpool", {at({1, 1, 2, 2}), as(DType::i64, at({1, 1, 2, 2}, {0, 2, 8, 10})), integers({1, 1, 4, 4})}, {{"kernel_shape", pair}, {"strides", pair}}},
      {"GlobalAveragePool", {image}},
      {"GlobalMaxPool", {image}},
      {"GlobalLpPool", {image}},
      {"RNN", {steps, weights(1, 2), weights(1, 3), at({1, 6}), lengths, state}, {{"hidden_size", three}}, 2},
      {"GRU", {steps, weights(3, 2), weights(3, 3), at({1, 18}), lengths, state}, {{"hidden_size", three}}, 2},
      {"GRU", {steps, weights(3, 2), weights(3, 3)}, {{"hidden_size", three}, {"linear_before_reset", whole(1)}}, 2},
      {"LSTM", {steps, weights(4, 2), weights(4, 3), at({1, 24}), lengths, state, state, at({1, 9}, {0.5, 0.25})}, {{"hidden_size", three}}, 3},
      {"LSTM", {steps, weights(4, 2), weights(4, 3)}, {{"hidden_size", three}}, 3},
      {"com.microsoft::EmbedLayerNormalization", {words({1, 0}), words({0, 1}), at({2, 4}), at({3, 4}), at({2, 4}), at({4}, {1, 0.5}), at({4}), words({1, 1}), words({2, 1})}, {}, 3},
      {"ai.onnx.preview.training::Adagrad", {number(0.5), number(2), at({3}), at({3}, {1, 2}), at({3}, {0.5, 1})}, {{"decay_factor", real(0.1f)}}, 2},
      {"ai.onnx.preview.training::Adam", {number(0.5), number(2), at({3}), at({3}, {1, 2}), at({3}, {0.5, 1}), at({3}, {2, 1})}, {}, 3},
      {"ai.onnx.preview.training::Momentum", {number(0.5), number(2), at({3}), at({3}, {1, 2}), at({3}, {0.5, 1})},
       {{"alpha", real(0.9f)}, {"beta", real(0.5f)}, {"norm_coefficient", real(0)}, {"mode", text("nesterov")}}, 2},
      {"ai.onnx.preview.training::Gradient", {at({2, 3})}, {{"xs", text_list({"input0"})}, {"y", text("input0")}}, 1, {{"Inputs", ops::types::floats}}},
      {"ai.onnx.preview.training::Gradient", {as(DType::f32, at({2, 3})), at({2})}, {{"xs", text_list({"input0"})}, {"zs", text_list({"input1"})}, {"y", text("input0")}}},
  };
}

}  // namespace tessera::test
