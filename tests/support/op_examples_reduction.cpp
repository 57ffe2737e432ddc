// Operators over lines and whole tensors: reductions, normalisation, products, selection, what is made from nothing.
#include "support/op_examples.h"

namespace tessera::test {
namespace {

constexpr const char* kReductions[] = {"ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                                       "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSum",       "ReduceSumSquare"};
constexpr const char* kLines[] = {"Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "LpNormalization"};
constexpr const char* kWindows[] = {"HannWindow", "HammingWindow", "BlackmanWindow"};

const ExampleOperand kGains = at({4}, {1, 0.5, 2, 1.5}), kSquares = at({4}, {1, 0.5, 2, 0.25});

ir::Attributes dtype(DType type) {
  return {{"dtype", code_of(type)}};
}
ir::Attributes stash_type(DType type) {
  return {{"stash_type", code_of(type)}};
}
ir::Attributes seeded(DType type) {
  return {{"dtype", code_of(type)}, {"seed", real(2)}, {"shape", whole_list({2, 3})}};
}
ir::Attributes seeded_like(DType type) {
  return {{"dtype", code_of(type)}, {"seed", real(2)}};
}
ir::Attributes output_datatype(DType type) {
  return {{"output_datatype", code_of(type)}};
}
ir::Attributes filled(DType type) {
  return {{"value", make_value(at({1}, {2}), type).tensor()}};
}

}  // namespace

std::vector<OpExample> reduction_examples() {
  std::vector<OpExample> examples;
  for (const char* op : kReductions) {
    examples.push_back({op, {at({2, 3, 5}, {1, 2.5, 0.5, 3}), integers({1})}});
    examples.push_back({op, {at({2, 3, 5}, {1, 2.5, 0.5, 3}), integers({0, 2})}, {{"keepdims", whole(0)}}});
  }
  for (const char* op : kLines) examples.push_back({op, {at({3, 5})}});
  for (const char* op : kWindows)
    examples.push_back({.op = op, .operands = {number(7)}, .attributes_follow = "output", .follow = output_datatype});
  const std::vector<OpExample> others{
      {"CumSum", {at({2, 5}), number(1)}},
      {"CumSum", {at({2, 5}), number(0)}, {{"exclusive", whole(1)}, {"reverse", whole(1)}}},
      {"CumProd", {at({2, 5}), number(1)}},
      {"BatchNormalization", {at({2, 4, 3}), kGains, at({4}), at({4}), kSquares}},
      {"BatchNormalization", {at({2, 4, 3}), kGains, at({4}), at({4}), kSquares}, {{"training_mode", whole(1)}}, 3},
      {.op = "LayerNormalization",
       .operands = {at({2, 4}), kGains, at({4})},
       .outputs = 3,
       .attributes_follow = "Mean",
       .follow = stash_type},
      {"LayerNormalization", {at({2, 4}), kGains}},
      {"RMSNormalization", {at({2, 4}), kGains}},
      {"GroupNormalization", {at({2, 4, 3}), kGains, at({4})}, {{"num_groups", whole(2)}}},
      {"InstanceNormalization", {at({2, 4, 3}), kGains, at({4})}},
      {"MeanVarianceNormalization", {at({2, 4, 3, 1})}},
      {"LRN", {at({1, 4, 2, 2})}, {{"size", whole(3)}}},
      {"com.microsoft::SkipLayerNormalization",
       {at({2, 3, 4}), at({2, 3, 4}, {1, 0.5, 2}), kGains, at({4}), at({4})},
       {},
       4},
      {"com.microsoft::SkipSimplifiedLayerNormalization",
       {at({2, 3, 4}), at({2, 3, 4}, {1, 0.5, 2}), kGains, at({4})},
       {},
       4},
      {"NegativeLogLikelihoodLoss", {at({3, 4}), at({3}, {0, 3, 1}), at({4}, {1, 2, 0.5})}},
      {"NegativeLogLikelihoodLoss", {at({3, 4, 2}), at({3, 2}, {0, 3, 1})}, {{"reduction", text("none")}}},
      {"SoftmaxCrossEntropyLoss", {at({3, 4}), at({3}, {0, 3, 1}), at({4}, {1, 2, 0.5})}, {}, 2},
      {"Det", {at({2, 2, 2}, {1, 2, 3, 5})}},
      {"tessera::DetGradient", {at({2, 2, 2}, {1, 2, 3, 5}), at({2})}},
      {"com.microsoft::Inverse", {at({2, 2, 2}, {1, 2, 3, 5})}},
      {"Einsum", {at({2, 3}), at({3, 4}, {1, 2, 0.5})}, {{"equation", text("ij,jk->ik")}}},
      {"Einsum", {at({2, 3, 3})}, {{"equation", text("bii->b")}}},
      {"MatMul", {at({2, 17}), at({17, 3}, {1, 2, 0.5})}},
      {"MatMul", {at({2, 2, 3}), at({3}, {1, 2, 0.5})}},
      {"Gemm", {at({2, 17}), at({17, 5}, {1, 2, 0.5}), at({5})}},
      {"Gemm", {at({3, 2}), at({5, 3}, {1, 2, 0.5})}, {{"transA", whole(1)}, {"transB", whole(1)}, {"alpha", real(2)}}},
      {"com.microsoft::FusedMatMul",
       {at({2, 3}), at({4, 3}, {1, 2, 0.5})},
       {{"transB", whole(1)}, {"alpha", real(0.5f)}}},
      {"tessera::TransposedMatMul",
       {at({2, 3, 2}), at({2, 4, 3}, {1, 2, 0.5})},
       {{"transA", whole(1)}, {"transB", whole(1)}}},
      {"com.microsoft::FusedGemm", {at({2, 3}), at({3, 4}, {1, 2, 0.5}), at({4})}, {{"activation", text("Relu")}}},
      {"Compress", {at({2, 3}), as(DType::boolean, at({3}, {1, 0, 1}))}, {{"axis", whole(1)}}},
      {"Compress", {at({2, 3}), as(DType::boolean, at({5}, {1, 0, 1}))}},
      {"NonZero", {at({2, 3})}},
      {"Unique", {at({7}, {3, 1, 2.5, 1})}, {}, 4},
      {"Unique", {at({3, 2}, {3, 1, 3, 1, 0, 2})}, {{"axis", whole(0)}, {"sorted", whole(0)}}, 4},
      {"TopK", {at({2, 5}), integers({3})}, {}, 2},
      {"TopK", {at({2, 5}), integers({2})}, {{"largest", whole(0)}, {"axis", whole(-1)}}, 2},
      {.op = "ConstantOfShape", .operands = {integers({2, 3})}, .attributes_follow = "output", .follow = filled},
      {"Range", {number(1), number(7), number(2)}},
      {.op = "EyeLike",
       .operands = {at({2, 3})},
       .attributes = {{"k", whole(1)}},
       .attributes_follow = "output",
       .follow = dtype},
      {"EyeLike", {at({3, 3})}},
      {"OneHot", {at({3}, {0, 2, 1}), number(3), at({2}, {0, 1})}},
      {.op = "RandomNormal", .attributes_follow = "output", .follow = seeded},
      {.op = "RandomUniform", .attributes_follow = "output", .follow = seeded},
      {.op = "RandomNormalLike", .operands = {at({2, 3})}, .attributes_follow = "output", .follow = seeded_like},
      {.op = "RandomUniformLike", .operands = {at({2, 3})}, .attributes_follow = "output", .follow = seeded_like},
      {.op = "Bernoulli", .operands = {at({2, 3}, {0, 0.5, 1})}, .attributes_follow = "output", .follow = seeded_like},
      {.op = "Multinomial",
       .operands = {at({2, 3})},
       .attributes = {{"sample_size", whole(4)}},
       .attributes_follow = "output",
       .follow = seeded_like},
      {.op = "MelWeightMatrix",
       .operands = {number(3), number(16), number(8000), number(0), number(4000)},
       .attributes_follow = "output",
       .follow = output_datatype},
      {"DFT", {at({1, 8, 1}), number(8), as(DType::i64, number(1))}},
      {"DFT", {at({1, 6, 2})}, {{"inverse", whole(1)}}},
      {"STFT", {at({1, 16, 1}), number(4), at({8}, {1, 0.5}), number(8)}},
  };
  examples.insert(examples.end(), others.begin(), others.end());
  return examples;
}

}  // namespace tessera::test
