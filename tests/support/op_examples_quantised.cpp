// Quantisation and arithmetic on quantised numbers.
#include "support/op_examples.h"

namespace tessera::test {
namespace {

ir::Attributes output_dtype(DType type) {
  return {{"output_dtype", code_of(type)}};
}

}  // namespace

std::vector<OpExample> quantised_examples() {
  using ops::TypeSet;
  constexpr TypeSet reals{DType::f32, DType::f16, DType::bf16}, scales = reals | TypeSet{DType::f8e8m0},
                                                                integral{DType::i32};
  const ExampleOperand half = number(0.5), zero = number(0), one = number(1), two = number(2), none = absent;
  const ExampleOperand matrix = at({2, 3}, {1, 2, 0, 3}), other = at({3, 4}, {3, 1, 2, 0, 1}),
                       image = at({1, 2, 4, 4}, {1, 2, 0, 3}), filter = at({2, 2, 3, 3}, {1, 0, 2});
  const ExampleOperand f32_half = as(DType::f32, half), f32_one = as(DType::f32, one);
  const ExampleOperand steps = at({3, 2, 2}), states = at({1, 2, 3}), lengths = at({2}, {3, 2});
  const ir::Attributes window{{"kernel_shape", whole_list({2, 2})}}, blocks{{"block_size", whole(16)}},
      bits{{"K", whole(20)}, {"N", whole(3)}, {"block_size", whole(16)}};
  const ExampleOperand nibbles = at({3, 2, 8}, {18, 52, 255, 128});
  return {
      {"QuantizeLinear", {at({2, 3}), half, one}, {}, 1, {{"x", reals}, {"y_scale", scales}}},
      {"QuantizeLinear", {at({2, 3}, {1, 2, 0, 3}), two, one}, {}, 1, {{"x", integral}, {"y_scale", integral}}},
      {"QuantizeLinear", {at({2, 3}), at({3}, {0.5, 1, 2})}, {}, 1, {{"x", reals}, {"y_scale", reals}}},
      {"QuantizeLinear",
       {at({2, 4}), at({2, 2}, {0.5, 1, 2}), at({2, 2}, {1, 0})},
       {{"block_size", whole(2)}},
       1,
       {{"x", reals}, {"y_scale", reals}}},
      {.op = "QuantizeLinear",
       .operands = {at({2, 3}), half},
       .only = {{"x", reals}, {"y_scale", reals}},
       .attributes_follow = "y",
       .follow = output_dtype},
      {"DequantizeLinear", {at({2, 3}, {1, 2, 0, 3}), half, zero}},
      {"DequantizeLinear", {at({2, 3}, {1, 2, 0, 3}), half}},
      {"DequantizeLinear",
       {at({2, 4}, {1, 2, 0, 3}), at({2, 2}, {0.5, 1, 2}), at({2, 2}, {0})},
       {{"block_size", whole(2)}}},
      {.op = "DequantizeLinear",
       .operands = {at({2, 3}, {1, 2, 0, 3}), half},
       .attributes_follow = "y",
       .follow = output_dtype},
      {"DynamicQuantizeLinear", {at({2, 3})}, {}, 3},
      {"MatMulInteger", {matrix, other, one, at({4}, {1, 0})}},
      {"QLinearMatMul", {matrix, half, one, other, one, zero, two, one}},
      {"ConvInteger", {image, filter, one, at({2}, {1, 0})}},
      {"QLinearConv", {image, half, one, filter, at({2}, {1, 0.5}), at({2}, {0, 0}), two, one, at({2}, {3, 1})}},
      {"tessera::QuantisedConv",
       {at({1, 4, 4, 2}, {1, 2, 0, 3}), filter, at({2}, {3, 1}), half, one, at({2}, {1, 0.5}), two, one},
       {{"activation", text("Relu")}}},
      {"tessera::QuantisedConv", {at({1, 4, 4, 2}, {1, 2, 0, 3}), filter, none, half, none, half}},
      {"tessera::QuantisedConv",
       {at({1, 4, 4, 2}, {1, 2, 0, 3}), filter, none, half, none, half, two, one, at({1, 2, 2, 2}, {1, 0, 2}), half,
        one, two, one}},
      {"tessera::QuantisedLinear",
       {matrix, other, at({4}, {3, 1}), half, one, at({4}, {1, 0.5}), two, one},
       {{"activation", text("Relu")}}},
      {"tessera::QuantisedLinear", {matrix, other, none, half, none, half}},
      {"tessera::QuantisedLinear",
       {matrix, other, none, half, none, half, two, one, at({2, 4}, {1, 0, 2}), half, one, two, one}},
      {"com.microsoft::QLinearAdd", {matrix, half, one, matrix, one, zero, two, one}},
      {"com.microsoft::QLinearMul", {matrix, half, one, matrix, one, zero, two, one}},
      {.op = "com.microsoft::QLinearConcat",
       .operands = {half, one, matrix, f32_half, one, matrix, f32_one, zero},
       .attributes = {{"axis", whole(0)}},
       .together = {"Y_zero_point", "inputs"}},
      {"com.microsoft::QLinearAveragePool", {image, half, one, one, zero}, window},
      {"com.microsoft::QLinearGlobalAveragePool", {image, half, one, one, zero}},
      {"com.microsoft::QLinearLeakyRelu", {matrix, half, one, one, zero}},
      {"com.microsoft::QLinearSigmoid", {matrix, half, one, number(0.0078125), zero}},
      {"com.microsoft::QLinearSoftmax", {matrix, half, one, number(0.0078125), zero}, {{"opset", whole(13)}}},
      {"com.microsoft::QLinearWhere", {at({2, 3}, {1, 0}), matrix, half, one, matrix, one, zero, two, one}},
      {"com.microsoft::QLinearReduceMean",
       {matrix, half, one, one, zero},
       {{"axes", whole_list({1})}, {"keepdims", whole(1)}}},
      {"com.microsoft::QGemm", {matrix, half, one, other, half, zero, at({4}, {3, 1}), one, one}},
      {"com.microsoft::QGemm", {matrix, half, one, other, half, zero}},
      {"com.microsoft::MatMulIntegerToFloat", {matrix, other, half, half, one, zero, at({4})}},
      {"com.microsoft::DynamicQuantizeMatMul", {at({2, 3}), other, half, zero, at({4})}},
      {"com.microsoft::MatMulInteger16", {matrix, other}},
      {"com.microsoft::MatMulNBits",
       {at({2, 20}), nibbles, at({3, 2}, {0.5, 1}), at({3, 2}, {8, 1}), as(DType::i32, at({20}, {0, 1})), at({3})},
       bits,
       1,
       {{"zero_points", reals}},
       {"A", "zero_points"}},
      {"com.microsoft::MatMulNBits",
       {at({2, 20}), nibbles, at({3, 2}, {0.5, 1}), as(DType::u8, at({3, 1}, {24})), none, at({3})},
       bits},
      {"com.microsoft::MatMulNBits", {at({2, 20}), nibbles, at({3, 2}, {0.5, 1})}, bits},
      {"com.microsoft::GatherBlockQuantized",
       {at({2, 16}, {1, 0, 3, 2}), at({2}, {1, 0}), at({2, 2}, {0.5, 1}), at({2, 1}, {24})},
       blocks,
       1,
       {{"data", {DType::u8}}}},
      {"com.microsoft::GatherBlockQuantized",
       {at({2, 32}, {1, 0, 3, 2}), at({2}, {1, 0}), at({2, 2}, {0.5, 1}), at({2, 2}, {1, 0})},
       blocks,
       1,
       {{"data", {DType::u4, DType::i4}}}},
      {"com.microsoft::GatherBlockQuantized",
       {at({2, 32}, {1, 0, 3, 2}), at({2}, {1, 0}), at({2, 2}, {0.5, 1})},
       blocks,
       1,
       {{"data", ops::types::small_floats}}},
      {.op = "com.microsoft::GatherBlockQuantized",
       .operands = {at({2, 32}, {1, 0, 3, 2}), at({2}, {1, 0}), at({2, 2}, {0.5, 1}), at({2, 2}, {1, 0})},
       .attributes = blocks,
       .only = {{"data", ops::types::small_floats}},
       .refuses = {"zero_points", ops::types::small_floats, "has no zero points"}},
      {"com.microsoft::DynamicQuantizeLSTM",
       {steps, at({1, 2, 12}, {1, 2, 0, 3}), at({1, 3, 12}, {1, 0, 2}), at({1, 24}), lengths, states, states,
        at({1, 9}, {0.5, 0.25}), at({1}, {0.0625}), at({1}, {1}), at({1}, {0.0625}), at({1}, {0})},
       {{"hidden_size", whole(3)}},
       3},
      {"com.microsoft::QAttention",
       {at({1, 3, 8}, {1, 2, 0, 3}), at({8, 24}, {1, 0, 2}), at({24}), half, half, at({1, 5}, {1, 1, 0, 1, 1}), one,
        zero, at({2, 1, 2, 2, 4})},
       {{"num_heads", whole(2)}},
       2},
      {"com.microsoft::QEmbedLayerNormalization",
       {at({1, 2}, {1, 0}), at({1, 2}, {0, 1}), at({2, 4}, {1, 2, 0, 3}), at({3, 4}, {3, 1, 2}), at({2, 4}, {2, 0, 1}),
        at({4}, {1, 2}), at({4}, {1, 0}), at({1, 2}, {1, 1}), half, half, half, one, half, one, zero, one, zero, zero},
       {},
       2},
  };
}

}  // namespace tessera::test
