// Layers: normalisation, losses, pooling, convolutions, Einsum, Resize, recurrent layers, attention.
#include "support/gradient_cases.h"

namespace tessera::test {

using namespace gradient_cases;

std::vector<GradientCase> layer_gradient_cases() {
  const Tensor x = reals({2, 4, 3}), channels = reals({4}, 2), other = reals({4}, 3), positive = reals({4}, 4, 0.5, 2);
  const ir::Attributes ignoring{{"ignore_index", std::int64_t{2}}};
  const auto reduced = [](const std::string& how) { return ir::Attributes{{"reduction", how}}; };
  const Tensor codes = random_tensor(DType::i8, {2, 4, 3}, 8, -9, 9), zeros = random_tensor(DType::i8, {4}, 9, -3, 3);
  const Tensor labels = indices({2, 3}, {0, 3, 2, 1, 1, 2});
  return {
      {{"Softmax", {x}, {{"axis", std::int64_t{1}}}}},
      {{"LogSoftmax", {x}}},
      {{"Hardmax", {x}}},
      {{"LayerNormalization", {x, reals({3}, 2), reals({3}, 3)}, {{"epsilon", 0.1f}}}, kStash},
      {{"LayerNormalization", {x, reals({4, 3}, 2)}, {{"axis", std::int64_t{1}}}}, kStash},
      {{"RMSNormalization", {x, reals({4, 3}, 2)}, {{"axis", std::int64_t{-2}}}}, kStash},
      {{"GroupNormalization", {x, channels, other}, {{"num_groups", std::int64_t{2}}}}, kStash},
      {{"InstanceNormalization", {x, channels, other}}},
      {{"BatchNormalization", {x, channels, other, reals({4}, 6), positive}}},
      {{"tessera::CtcLoss",
        {reals({3, 5, 4}), Tensor::from<std::int64_t>({3, 3}, {1, 1, 3, 2, 0, 3, 0, 3, 0})},
        {{"blank", std::int64_t{2}}, {"ignore_index", std::int64_t{2}}}}},
      {{"tessera::SoftmaxCrossEntropy", {reals({3, 5}), integers({4, 0, 2})}}, kStash},
      {{"tessera::SoftmaxCrossEntropy",
        {x, labels},
        {{"axis", std::int64_t{1}}, {"ignore_index", std::int64_t{2}}, {"label_smoothing", 0.25f}}},
       kStash},
      {{"tessera::BatchNormTraining", {reals({3, 4, 2}), channels, other}}, kStash},
      {{"tessera::BatchNormTraining",
        {reals({5, 4}), channels, other, reals({5, 4}, 7)},
        {{"relu", std::int64_t{1}}, {"epsilon", 0.1f}}},
       kStash},
      {{"tessera::BatchNormTraining",
        {reals({3, 2, 4}), channels, other, reals({3, 2, 4}, 7)},
        {{"channel_axis", std::int64_t{-1}}}},
       kStash},
      {{"NegativeLogLikelihoodLoss", {x, labels}}},
      {{"NegativeLogLikelihoodLoss", {x, labels}, reduced("none")}},
      {{"NegativeLogLikelihoodLoss", {x, labels}, ignoring}},
      {{"SoftmaxCrossEntropyLoss", {x, labels}, reduced("sum"), 2}},
      {{"SoftmaxCrossEntropyLoss", {reals({2, 4}), integers({3, 0})}}},
      {{"SoftmaxCrossEntropyLoss", {x, labels}, ignoring}},
      {{"GlobalAveragePool", {x}}},
      {{"GlobalMaxPool", {x}}},
      {{"MaxPool",
        {reals({1, 2, 5, 4})},
        {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}}}},
      {{"AveragePool",
        {reals({1, 2, 5, 4})},
        {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}}}},
      {{"AveragePool",
        {reals({2, 1, 7})},
        {{"kernel_shape", Integers{3}},
         {"strides", Integers{2}},
         {"dilations", Integers{2}},
         {"pads", Integers{1, 1}},
         {"ceil_mode", std::int64_t{1}},
         {"count_include_pad", std::int64_t{1}}}}},
      {{"LpPool", {reals({1, 2, 4, 4}, 1, 0.5, 2)}, {{"kernel_shape", Integers{2, 3}}, {"p", std::int64_t{3}}}}},
      {{"LpPool", {reals({1, 2, 5})}, {{"kernel_shape", Integers{2}}, {"pads", Integers{1, 0}}}}},
      {{"LpPool", {reals({1, 2, 5})}, {{"kernel_shape", Integers{3}}, {"p", std::int64_t{1}}}}},
      {{"GlobalLpPool", {reals({2, 2, 3})}, {{"p", std::int64_t{3}}}}},
      {{"GlobalLpPool", {reals({2, 2, 3})}}},
      {{"MaxUnpool",
        {reals({1, 2, 2, 2}), indices({1, 2, 2, 2}, {0, 2, 13, 15, 16, 22, 24, 30})},
        {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}}}},
      {{"DequantizeLinear", {codes, random_tensor(DType::f32, {4}, 3, 0.5, 2), zeros}}, kSingle},
      {{"DequantizeLinear", {codes, Tensor::scalar(0.5f)}}, kSingle},
      {{"LpNormalization", {x}}},
      {{"LpNormalization", {x}, {{"axis", std::int64_t{1}}, {"p", std::int64_t{1}}}}},
      {{"MeanVarianceNormalization", {reals({2, 3, 2, 2})}}},
      {{"LRN", {reals({2, 5, 3})}, {{"size", std::int64_t{3}}, {"alpha", 0.5f}, {"beta", 0.7f}, {"bias", 1.5f}}}},
      {{"LRN", {reals({1, 6, 2, 2})}, {{"size", std::int64_t{4}}, {"alpha", 0.5f}}}},
      {{"Conv",
        {reals({2, 2, 7}, 1), reals({3, 2, 3}, 2), reals({3}, 3)},
        {{"strides", Integers{2}}, {"pads", Integers{1, 0}}}},
       kKnown},
      {{"Conv",
        {reals({2, 4, 5, 6}, 1), reals({2, 2, 2, 3}, 2)},
        {{"group", std::int64_t{2}}, {"strides", Integers{1, 3}}, {"dilations", Integers{2, 1}}}},
       kKnown},
      {{"ConvTranspose",
        {reals({2, 2, 3}, 1), reals({2, 3, 3}, 2), reals({3}, 3)},
        {{"strides", Integers{2}}, {"pads", Integers{1, 0}}, {"output_padding", Integers{1}}}},
       kKnown},
      {{"ConvTranspose",
        {reals({1, 4, 2, 3}, 1), reals({4, 1, 2, 2}, 2)},
        {{"group", std::int64_t{2}},
         {"strides", Integers{1, 2}},
         {"dilations", Integers{3, 1}},
         {"output_padding", Integers{2, 0}}}},
       kKnown},
      {{"Conv",
        {reals({1, 1, 6, 5}, 1), reals({1, 1, 3, 2}, 2)},
        {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Integers{2, 2}}}},
       kKnown},
      // Data, dictionary, coefficients (two of them of the same vector, whose gradients add up) and bias.
      {{"tessera::DictionaryConv",
        {reals({2, 2, 5}, 1), reals({3, 2}, 2), indices({2, 2, 3}, {0, 1, 2, 0, 2, 1, 2, 2, 0, 1, 0, 0}),
         reals({2, 2, 3}, 3), reals({2}, 4)},
        {{"strides", Integers{2}}, {"pads", Integers{1, 1}}}},
       kKnown},
      {{"tessera::DictionaryConv",
        {reals({1, 3, 4, 3}, 1), reals({2, 3}, 2), indices({2, 1, 2, 2}, {0, 1, 1, 0, 1, 1, 0, 0}),
         reals({2, 1, 2, 2}, 3), Value(), reals({1, 2, 2, 2}, 4)},
        {{"dilations", Integers{2, 1}}, {"activation", std::string("Tanh")}}},
       kKnown},
  };
}

std::vector<GradientCase> deformed_gradient_cases() {
  return {
      {{"tessera::DeformedWindows",
        {reals({1, 2, 4, 5}), reals({1, 24, 3, 2}, 2, -1.4, 1.4), reals({1, 12, 3, 2}, 3)},
        {{"kernel_shape", Integers{2, 3}},
         {"strides", Integers{1, 2}},
         {"pads", Integers{0, 1, 0, 0}},
         {"offset_group", std::int64_t{2}}}}},
      {{"tessera::DeformedWindows",
        {reals({2, 1, 6}), reals({2, 2, 4}, 2, -0.9, 0.9)},
        {{"kernel_shape", Integers{2}}, {"dilations", Integers{2}}}}},
      {{"DeformConv", {reals({2, 2, 4, 3}), reals({3, 2, 2, 2}, 2), reals({2, 8, 3, 2}, 3, -0.8, 0.8), reals({3}, 4)}},
       kKnown},
      {{"DeformConv",
        {reals({1, 4, 3, 4}), reals({2, 2, 1, 3}, 2), reals({1, 12, 3, 4}, 3, -1.2, 1.2), Value(),
         reals({1, 6, 3, 4}, 5)},
        {{"group", std::int64_t{2}}, {"offset_group", std::int64_t{2}}, {"pads", Integers{0, 1, 0, 1}}}},
       kKnown},
  };
}

std::vector<GradientCase> transform_gradient_cases() {
  const auto how = [](std::int64_t inverse, std::int64_t onesided) {
    return ir::Attributes{{"inverse", inverse}, {"onesided", onesided}};
  };
  const Tensor length7 = Tensor::scalar(std::int64_t{7}), length4 = Tensor::scalar(std::int64_t{4}),
               first = Tensor::scalar(std::int64_t{0}), second = Tensor::scalar(std::int64_t{1});
  std::vector<Case> cases;
  for (const std::int64_t inverse : {0, 1}) {
    cases.push_back({{"DFT", {reals({2, 5, 3, 2}), Value(), second}, how(inverse, 0)}});
    cases.push_back({{"DFT", {reals({5, 2, 2}), length7, first}, how(inverse, 0)}});
    cases.push_back({{"DFT", {reals({2, 5, 1}), length4}, how(inverse, 0)}});
    cases.push_back({{"DFT", {reals({2, 5, 1}), length7}, how(inverse, 0)}});
  }
  for (const Tensor& length : {length4, length7}) {
    cases.push_back({{"DFT", {reals({2, 5, 1}), length}, how(0, 1)}});
    cases.push_back({{"DFT", {reals({2, 4, 2}), length}, how(1, 1)}});
    cases.push_back({{"DFT", {reals({2, 2, 2}), length}, how(1, 1)}});
  }
  cases.push_back({{"DFT", {reals({2, 6, 1})}, how(0, 1)}});
  cases.push_back({{"DFT", {reals({2, 4, 2})}, how(1, 1)}});
  const Tensor three = Tensor::scalar(std::int64_t{3}), six = Tensor::scalar(std::int64_t{6});
  cases.push_back({{"STFT", {reals({2, 14, 1}), three, reals({5}, 2)}}, kKnown});
  cases.push_back({{"STFT", {reals({1, 13, 2}), three, reals({4}, 2), six}, {{"onesided", std::int64_t{0}}}}, kKnown});
  cases.push_back({{"STFT", {reals({2, 9, 1}), three, Value(), six}, {{"onesided", std::int64_t{0}}}}, kKnown});
  cases.push_back({{"Det", {reals({2, 3, 3})}}});
  cases.push_back({{"Det", {Tensor::from<double>({3, 3}, {1, 2, 3, 2, 4, 6, -1, 0.5, 2})}}});  // singular
  cases.push_back({{"Det", {reals({2, 1, 1})}}});
  return cases;
}

std::vector<GradientCase> einsum_gradient_cases() {
  const auto equation = [](const std::string& text) { return ir::Attributes{{"equation", text}}; };
  const Tensor square = reals({3, 3}, 1), a = reals({2, 3}, 2), b = reals({3, 4}, 3);
  return {
      {{"Einsum", {a, b}, equation("ij,jk->ik")}},
      {{"Einsum", {a, b, reals({4}, 4)}, equation("ij,jk,k")}},
      {{"Einsum", {a}, equation("ij->j")}},
      {{"Einsum", {a}, equation("ij->")}},
      {{"Einsum", {square}, equation("ii->i")}},
      {{"Einsum", {square, a}, equation("ii,ji->j")}},
      {{"Einsum", {reals({2, 3, 3}, 1)}, equation("bii->b")}},
      {{"Einsum", {reals({2, 5, 3}, 1), reals({2, 3, 4}, 2)}, equation("...ij,...jk->...ik")}, kKnown},
      {{"Einsum", {reals({2, 1, 3}, 1), reals({5, 3}, 2)}, equation("...j,...j->...")}, kKnown},
  };
}

std::vector<GradientCase> resize_gradient_cases() {
  constexpr GradientCheck kResize{.constants = 0b100};  // the scales
  const auto attributes = [](const std::string& mode, const std::string& coordinates, std::int64_t antialias = 0) {
    return ir::Attributes{{"mode", mode}, {"coordinate_transformation_mode", coordinates}, {"antialias", antialias}};
  };
  const Tensor x = reals({1, 2, 3, 4}), scales = Tensor::from<float>({4}, {1, 1, 2, 1.5f}),
               shrink = Tensor::from<float>({4}, {1, 1, 0.6f, 0.5f});
  ir::Attributes two_axes = attributes("linear", "asymmetric");
  two_axes["axes"] = Integers{2, 3};
  std::vector<Case> cases{
      {{"Resize", {x, Value(), scales}, attributes("nearest", "half_pixel")}, kResize},
      {{"Resize", {x, Value(), Value(), integers({1, 2, 2, 7})}, attributes("nearest", "asymmetric")}, kResize},
      {{"Resize", {x, Value(), shrink}, attributes("linear", "half_pixel", 1)}, kResize},
      {{"Resize", {x, Value(), shrink}, attributes("cubic", "half_pixel", 1)}, kResize},
      {{"Resize", {x, Value(), Value(), integers({5, 3})}, two_axes}, kResize},
  };
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"}) {
    for (const char* mode : {"linear", "cubic"})
      cases.push_back({{"Resize", {x, Value(), scales}, attributes(mode, coordinates)}, kResize});
  }
  return cases;
}

std::vector<GradientCase> recurrent_gradient_cases() {
  const auto weights = [](std::int64_t directions, std::int64_t gates, std::int64_t columns, std::uint64_t seed) {
    return reals({directions, gates * 2, columns}, seed, -0.8, 0.8);
  };
  const auto direction = [](const std::string& which) {
    return ir::Attributes{{"hidden_size", std::int64_t{2}}, {"direction", which}};
  };
  const Tensor x = reals({3, 2, 3}, 1), h = reals({1, 2, 2}, 5, -0.5, 0.5), c = reals({1, 2, 2}, 6, -0.5, 0.5);
  const Tensor lengths = Tensor::from<std::int32_t>({2}, {2, 3});
  std::vector<Case> cases;
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const std::size_t outputs = gates == 4 ? 3 : 2;
    const Tensor b = reals({1, gates * 4}, 4, -0.5, 0.5), w = weights(1, gates, 3, 2), r = weights(1, gates, 2, 3);
    cases.push_back({{op, {x, w, r}, direction("forward"), 1}});
    cases.push_back({{op, {x, w, r, b, Value(), h}, direction("reverse"), outputs}});
    cases.push_back({{op, {x, w, r, b, lengths, h}, direction("forward"), outputs}});
    cases.push_back({{op, {x, w, r, b, lengths, h}, direction("reverse"), outputs}});
    cases.push_back({{op,
                      {x, weights(2, gates, 3, 2), weights(2, gates, 2, 3), reals({2, gates * 4}, 4, -0.5, 0.5)},
                      direction("bidirectional"),
                      outputs}});
    ir::Attributes batch_first = direction("forward");
    batch_first["layout"] = std::int64_t{1};
    cases.push_back({{op, {reals({2, 3, 3}, 1), w, r, b}, batch_first, outputs}});
  }
  ir::Attributes linear = direction("bidirectional"), relu = direction("forward");
  linear["linear_before_reset"] = std::int64_t{1};
  relu["activations"] = std::vector<std::string>{"Relu"};
  cases.push_back(
      {{"GRU", {x, weights(2, 3, 3, 2), weights(2, 3, 2, 3), reals({2, 12}, 4, -0.5, 0.5), lengths}, linear, 2}});
  cases.push_back({{"RNN", {x, weights(1, 1, 3, 2), weights(1, 1, 2, 3)}, relu, 2}});
  cases.push_back({{"LSTM",
                    {x, weights(1, 4, 3, 2), weights(1, 4, 2, 3), reals({1, 16}, 4), lengths, h, c, reals({1, 6}, 7)},
                    direction("forward"),
                    3}});
  cases.push_back({{"tessera::LSTMWithGates", {x, weights(1, 4, 3, 2), weights(1, 4, 2, 3)}, direction("reverse"), 3}});
  cases.push_back({{"tessera::GRUWithGates", {x, weights(1, 3, 3, 2), weights(1, 3, 2, 3)}, direction("forward"), 2}});
  return cases;
}

// Of operators that know no f64.
std::vector<GradientCase> stateful_gradient_cases() {
  const auto singles = [](const Shape& shape, std::uint64_t seed, double low = -1, double high = 1) {
    return random_tensor(DType::f32, shape, seed, low, high);
  };
  const auto rule = [](const std::string& name, std::int64_t query_heads) {
    return ir::Attributes{{"update_rule", name},
                          {"q_num_heads", query_heads},
                          {"kv_num_heads", std::int64_t{2}},
                          {"chunk_size", std::int64_t{2}}};
  };
  constexpr GradientCheck kCoarse{.step = 2e-2, .tolerance = 4e-3, .symbolic = false};
  const Tensor q = singles({2, 5, 8}, 1), k = singles({2, 5, 4}, 2), v = singles({2, 5, 6}, 3),
               past = singles({2, 2, 2, 3}, 4), decay = singles({2, 5, 2}, 5), decays = singles({2, 5, 4}, 5),
               beta = singles({2, 5, 2}, 6), shared = singles({2, 5, 1}, 6);
  return {
      {{"LinearAttention", {q, k, v}, rule("linear", 4), 2}, kCoarse},
      {{"LinearAttention", {q, k, v, past, decay}, rule("gated", 4), 2}, kCoarse},
      {{"LinearAttention", {k, k, v, past, Value(), beta}, rule("delta", 2), 1}, kCoarse},
      {{"LinearAttention", {q, k, v, Value(), decays, shared}, rule("gated_delta", 4), 2}, kCoarse},
      {{"CausalConvWithState",
        {singles({2, 3, 5}, 1), singles({3, 1, 3}, 2), singles({3}, 3), singles({2, 3, 2}, 4)},
        {{"activation", std::string("silu")}},
        2},
       kCoarse},
      {{"CausalConvWithState", {singles({1, 2, 3}, 1), singles({2, 1, 4}, 2)}, {}, 2}, kCoarse},
      {{"CausalConvWithState", {singles({1, 2, 3}, 1), singles({2, 1, 1}, 2)}, {}, 1}, kCoarse},
  };
}

std::vector<GradientCase> attention_gradient_cases() {
  const Tensor q = reals({1, 4, 3, 2}, 1), k = reals({1, 2, 5, 2}, 2), v = reals({1, 2, 5, 3}, 3);
  const ir::Attributes packed{
      {"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{1}}, {"is_causal", std::int64_t{1}}};
  const Tensor cosines = random_tensor(DType::f32, {5, 2}, 7, -1, 1),
               sines = random_tensor(DType::f32, {5, 2}, 8, -1, 1);
  constexpr GradientCheck kRotary{.step = 1e-2, .tolerance = 2e-3, .constants = 0b110};  // the caches
  const Tensor turned = random_tensor(DType::f32, {1, 2, 3, 4}, 1, -2, 2);
  return {
      {{"Attention", {q, k, v}}, kKnown},
      {{"Attention", {q, k, v, reals({3, 5}, 4)}, {{"softcap", 1.5f}, {"scale", 0.7f}}}, kKnown},
      {{"Attention", {q, k, v, Tensor::from<bool>({1, 5}, {true, false, true, true, false})}}, kKnown},
      {{"Attention", {reals({2, 3, 4}, 1), reals({2, 3, 2}, 2), reals({2, 3, 3}, 3)}, packed}, kKnown},
      {{"Attention",
        {q, reals({1, 2, 2, 2}, 2), reals({1, 2, 2, 3}, 3), Value(), reals({1, 2, 3, 2}, 4), reals({1, 2, 3, 3}, 5)},
        {{"is_causal", std::int64_t{1}}},
        3},
       kKnown},
      {{"Attention", {q, k, v, reals({4, 1, 5}, 4)}, {{"scale", 0.7f}, {"is_causal", std::int64_t{1}}}},
       {.symbolic = false, .constants = 0b1000}},
      {{"tessera::AttentionWithStatistics", {q, k, v, Tensor::from<bool>({1, 5}, {true, false, true, true, false})}},
       kKnown},
      {{"tessera::AttentionWithDropout",
        {q, k, v, Tensor::from<bool>({1, 5}, {true, false, true, true, false})},
        {{"dropout", 0.25f}, {"seed", std::int64_t{3}}}},
       kKnown},
      {{"RotaryEmbedding", {turned, cosines, sines, indices({1, 3}, {2, 0, 4})}}, kRotary},
      {{"RotaryEmbedding", {turned, cosines, sines, indices({1, 3}, {1, 3, 0})}, {{"interleaved", std::int64_t{1}}}},
       kRotary},
  };
}

}  // namespace tessera::test
