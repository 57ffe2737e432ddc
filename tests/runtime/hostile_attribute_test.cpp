// Attributes that lie: about sizes of other operands, about each other, or about what they are.
#include <gtest/gtest.h>

#include <cmath>

#include "support/hostile_call.h"

namespace tessera::test::hostile_attribute_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;
constexpr std::int64_t kTera = std::int64_t{1} << 40, kHigh = INT64_MAX, kLow = INT64_MIN;

Tensor zeros(const Shape& shape, DType type = DType::f32) {
  Tensor tensor(type, shape);
  std::fill_n(static_cast<std::byte*>(tensor.mutable_raw()), tensor.bytes(), std::byte{0});
  return tensor;
}
ir::Attributes changed(ir::Attributes attributes, std::string_view name, ir::Attribute value) {
  attributes.insert_or_assign(std::string(name), std::move(value));
  return attributes;
}

TEST(HostileAttribute, KindsAndNamesAreThoseOfTheOperator) {
  const Tensor x = zeros({2, 2});
  expect_call_refused({"Softmax", {x}, {{"axis", 1.0f}}}, "attribute 'axis' is of kind float, expected integer");
  expect_call_refused({"Softmax", {x}, {{"axis", Integers{1}}}},
                      "attribute 'axis' is of kind integers, expected integer");
  expect_call_refused({"Softmax", {x}, {{"axes", std::int64_t{1}}}}, "has no attribute 'axes'");
  expect_call_refused({"Transpose", {x}, {{"perm", Integers{0}}}}, "perm names 1 axes of a tensor of rank 2");
  expect_call_refused({"Transpose", {x}, {{"perm", Integers{0, 0}}}}, "axis 0 is listed more than once");
  expect_call_refused({"Transpose", {x}, {{"perm", Integers{0, 2}}}}, "axis 2 is outside");
  expect_call_refused({"Gelu", {x}, {{"approximate", std::string("nearly")}}}, "nearly");
  expect_call_refused({"Cast", {x}, {{"to", std::int64_t{99}}}}, "attribute 'to' is 99, which is no element type");
  expect_call_refused({"Cast", {x}, {{"to", kLow}}}, "which is no element type");
  expect_call_refused({"BitShift", {zeros({1}, DType::u8), zeros({1}, DType::u8)}, {{"direction", std::string("UP")}}},
                      "");
  expect_call_refused(
      {"ScatterElements", {x, zeros({1, 1}, DType::i64), zeros({1, 1})}, {{"reduction", std::string("xor")}}}, "");
  expect_call_refused({"GatherND", {x, zeros({1, 1}, DType::i64)}, {{"batch_dims", kHigh}}}, "");
  expect_call_refused({"GatherND", {x, zeros({1, 1}, DType::i64)}, {{"batch_dims", std::int64_t{-1}}}}, "");
  for (const char* equation : {"", "ij", "ij,jk", "ij->ij->", "i.j->ij", "...i...->i", "ii->i,", "iz->q", "1,2->3"})
    expect_call_harmless({"Einsum", {x}, {{"equation", std::string(equation)}}});
}

TEST(HostileAttribute, HiddenSizesAgreeWithTheWeights) {
  const Tensor x = zeros({3, 1, 2});
  struct Net {
    const char* op;
    std::int64_t gates;
    std::size_t outputs;
  };
  for (const Net& net : {Net{"RNN", 1, 2}, Net{"GRU", 3, 2}, Net{"LSTM", 4, 3}}) {
    const Tensor w = zeros({1, net.gates * 3, 2}), r = zeros({1, net.gates * 3, 3});
    for (const std::int64_t hidden :
         {std::int64_t{2}, std::int64_t{4}, std::int64_t{0}, std::int64_t{-3}, kTera, kHigh, kLow}) {
      expect_call_refused({net.op, {x, w, r}, {{"hidden_size", hidden}}, net.outputs}, "");
    }
    const ir::Attributes hidden{{"hidden_size", std::int64_t{3}}};
    expect_call_refused({net.op, {x, w, zeros({1, net.gates * 3, 4})}, hidden, net.outputs}, "");
    expect_call_refused({net.op, {x, zeros({2, net.gates * 3, 2}), r}, hidden, net.outputs}, "");
    expect_call_refused({net.op, {x, zeros({1, net.gates * 3, 1}), r}, hidden, net.outputs}, "");
    expect_call_refused({net.op, {x, w, r, zeros({1, 1})}, hidden, net.outputs}, "");
    expect_call_refused({net.op, {x, w, r}, changed(hidden, "direction", std::string("sideways")), net.outputs},
                        "sideways");
    expect_call_refused({net.op, {x, w, r}, changed(hidden, "direction", std::string("bidirectional")), net.outputs},
                        "");
    expect_call_refused({net.op, {x, w, r}, changed(hidden, "activations", Texts{"Explode"}), net.outputs}, "");
    expect_call_refused({net.op, {x, w, r}, changed(hidden, "layout", kHigh), net.outputs}, "");
    expect_call_harmless({net.op, {x, w, r}, changed(hidden, "clip", static_cast<float>(NAN)), net.outputs});
  }
}

TEST(HostileAttribute, NumbersOfHeadsDivideWhatTheyShould) {
  const Tensor packed = zeros({1, 3, 8}), apart = zeros({1, 2, 3, 4});
  for (const std::int64_t heads : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{3}, kTera, kHigh, kLow}) {
    expect_call_refused(
        {"Attention", {packed, packed, packed}, {{"q_num_heads", heads}, {"kv_num_heads", std::int64_t{2}}}}, "");
    expect_call_refused(
        {"Attention", {packed, packed, packed}, {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", heads}}}, "");
    expect_call_refused({"RotaryEmbedding", {packed, zeros({1, 3, 2}), zeros({1, 3, 2})}, {{"num_heads", heads}}}, "");
  }
  expect_call_refused({"Attention", {packed, packed, packed}}, "");
  for (const std::int64_t size : {std::int64_t{3}, std::int64_t{-2}, std::int64_t{6}, kHigh - 1, kLow}) {
    expect_call_refused(
        {"RotaryEmbedding", {apart, zeros({1, 3, 2}), zeros({1, 3, 2})}, {{"rotary_embedding_dim", size}}}, "");
  }
  expect_call_refused({"Attention", {apart, apart, zeros({1, 2, 4, 4})}}, "");
  expect_call_refused({"Attention", {apart, zeros({1, 2, 3, 5}), apart}}, "");
  expect_call_refused({"Attention", {apart, apart, apart, zeros({7, 7})}}, "");
  expect_call_harmless({"Attention",
                        {apart, apart, apart},
                        {{"scale", static_cast<float>(NAN)}, {"softcap", static_cast<float>(INFINITY)}}});
}

TEST(HostileAttribute, GroupsBlocksAndScalesFit) {
  const Tensor x = zeros({1, 4, 2, 2}), ones = zeros({4});
  for (const std::int64_t groups : {std::int64_t{0}, std::int64_t{-2}, std::int64_t{3}, kHigh, kLow}) {
    expect_call_refused({"GroupNormalization", {x, ones, ones}, {{"num_groups", groups}}}, "");
    expect_call_refused({"DeformConv", {x, zeros({4, 4, 1, 1}), zeros({1, 2, 2, 2})}, {{"offset_group", groups}}}, "");
  }
  expect_call_harmless({"LayerNormalization", {x, zeros({2}), zeros({2})}, {{"epsilon", static_cast<float>(NAN)}}});
  expect_call_refused({"LayerNormalization", {x, zeros({3})}}, "");
  expect_call_refused({"BatchNormalization", {x, ones, ones, ones, zeros({3})}}, "");
  for (const std::int64_t block : {std::int64_t{-1}, std::int64_t{1}, std::int64_t{4}, kHigh, kLow}) {
    expect_call_refused({"DequantizeLinear",
                         {zeros({4, 4}, DType::i8), zeros({2, 4})},
                         {{"axis", std::int64_t{0}}, {"block_size", block}}},
                        "");
  }
  expect_call_refused({"QuantizeLinear", {zeros({4, 4}), zeros({3})}}, "");
  expect_call_refused({"DequantizeLinear", {zeros({4}, DType::i8), zeros({0})}}, "");
  expect_call_harmless(
      {"QuantizeLinear", {Tensor::from<float>({5}, {NAN, INFINITY, -INFINITY, 1e30f, 1}), Tensor::scalar(0.0f)}});
  expect_call_harmless({"QuantizeLinear", {Tensor::from<float>({2}, {1, 2}), Tensor::scalar(static_cast<float>(NAN))}});
  expect_call_harmless({"DynamicQuantizeLinear", {Tensor::from<float>({3}, {NAN, INFINITY, -INFINITY})}, {}, 3});
  const Tensor bytes = zeros({2, 2}, DType::u8), scale = Tensor::scalar(1.0f), none = zeros({0}),
               zero = zeros({}, DType::u8);
  expect_call_refused({"QLinearMatMul", {bytes, none, zero, bytes, scale, zero, scale, zero}},
                      "'a_scale' has shape [0], expected one value");
  expect_call_refused({"QLinearMatMul", {bytes, scale, zero, bytes, scale, zero, none, zero}},
                      "'y_scale' has shape [0], expected one value");
  expect_call_refused({"QLinearMatMul", {bytes, scale, zeros({3}, DType::u8), bytes, scale, zero, scale, zero}}, "");
  expect_call_refused({"MatMulInteger", {bytes, bytes, zeros({3}, DType::u8)}}, "");
}

TEST(HostileAttribute, TreesAreTrees) {
  const ir::Attributes tree{{"nodes_treeids", Integers{0, 0, 0}},
                            {"nodes_nodeids", Integers{0, 1, 2}},
                            {"nodes_featureids", Integers{0, 0, 0}},
                            {"nodes_modes", Texts{"BRANCH_LEQ", "LEAF", "LEAF"}},
                            {"nodes_values", Reals{0.5f, 0, 0}},
                            {"nodes_truenodeids", Integers{1, 0, 0}},
                            {"nodes_falsenodeids", Integers{2, 0, 0}},
                            {"target_treeids", Integers{0, 0}},
                            {"target_nodeids", Integers{1, 2}},
                            {"target_ids", Integers{0, 0}},
                            {"target_weights", Reals{1, 2}}};
  const Tensor x = zeros({2, 1});
  const auto call = [&](std::string_view name, ir::Attribute value) {
    return OpCall{"ai.onnx.ml::TreeEnsembleRegressor", {x}, changed(tree, name, std::move(value))};
  };
  expect_call_gives({"ai.onnx.ml::TreeEnsembleRegressor", {x}, tree}, Tensor::from<float>({2, 1}, {1, 1}));
  expect_call_refused(call("nodes_truenodeids", Integers{0, 0, 0}), "has more than one parent");
  expect_call_refused(call("nodes_truenodeids", Integers{7, 0, 0}), "tree 0 has no node 7");
  expect_call_refused(call("nodes_falsenodeids", Integers{kLow, 0, 0}), "tree 0 has no node -9223372036854775808");
  expect_call_refused(call("nodes_nodeids", Integers{0, 1, 1}), "node 1 of tree 0 is given twice");
  expect_call_refused(call("nodes_featureids", Integers{-1, 0, 0}), "a node looks at feature -1");
  expect_call_refused(call("nodes_featureids", Integers{1, 0, 0}), "a node looks at feature 1 of 1");
  expect_call_refused(call("nodes_featureids", Integers{kHigh, 0, 0}), "");
  expect_call_refused(call("nodes_modes", Texts{"BRANCH_MAYBE", "LEAF", "LEAF"}),
                      "nodes_modes has the entry 'BRANCH_MAYBE'");
  expect_call_refused(call("nodes_values", Reals{0.5f}), "attribute 'nodes_values' has 1 entries, expected 3");
  expect_call_refused(call("target_ids", Integers{0, 1}),
                      "attribute 'target_ids' has the entry 1, expected less than 1");
  expect_call_refused(call("target_ids", Integers{0, kLow}), "expected less than 1");
  expect_call_refused(call("n_targets", kHigh), "");
  expect_call_refused(call("n_targets", kTera), "");
  expect_call_refused(call("n_targets", std::int64_t{0}), "n_targets is 0");
  expect_call_refused(call("post_transform", std::string("MAGIC")), "post_transform is 'MAGIC'");
  const ir::Attributes graph{{"nodes_featureids", Integers{0, 0}},
                             {"nodes_splits", Tensor::from<float>({2}, {0, 0})},
                             {"nodes_modes", zeros({2}, DType::u8)},
                             {"nodes_truenodeids", Integers{1, 0}},
                             {"nodes_trueleafs", Integers{0, 1}},
                             {"nodes_falsenodeids", Integers{0, 0}},
                             {"nodes_falseleafs", Integers{1, 1}},
                             {"leaf_targetids", Integers{0}},
                             {"leaf_weights", Tensor::from<float>({1}, {1})},
                             {"tree_roots", Integers{0}}};
  expect_call_gives({"ai.onnx.ml::TreeEnsemble", {x}, graph}, Tensor::from<float>({2, 1}, {1, 1}));
  const auto ensemble = [&](std::string_view name, ir::Attribute value) {
    return OpCall{"ai.onnx.ml::TreeEnsemble", {x}, changed(graph, name, std::move(value))};
  };
  expect_call_refused(ensemble("nodes_trueleafs", Integers{0, 0}), "has more than one parent");
  expect_call_refused(ensemble("tree_roots", Integers{2}), "tree_roots");
  expect_call_refused(ensemble("tree_roots", Integers{-1}), "tree_roots");
  expect_call_refused(ensemble("nodes_modes", Tensor::from<std::uint8_t>({2}, {7, 0})), "nodes_modes");
  expect_call_refused(ensemble("nodes_modes", Tensor::from<std::uint8_t>({2}, {6, 0})),
                      "membership_values has too few sets");
  expect_call_refused(ensemble("leaf_targetids", Integers{5}), "leaf_targetids");
}

TEST(HostileAttribute, ModelsOfFeaturesHaveListsOfOneLength) {
  const Tensor x = zeros({2, 3});
  const ir::Attributes svm{{"coefficients", Reals{1}},
                           {"support_vectors", Reals{1, 1, 1}},
                           {"rho", Reals{0}},
                           {"n_supports", std::int64_t{1}}};
  for (const std::int64_t supports : {std::int64_t{2}, std::int64_t{-1}, kTera, kHigh, kLow}) {
    expect_call_refused({"ai.onnx.ml::SVMRegressor", {x}, changed(svm, "n_supports", supports)}, "");
  }
  expect_call_refused({"ai.onnx.ml::SVMRegressor", {x}, changed(svm, "support_vectors", Reals{1})}, "");
  expect_call_refused({"ai.onnx.ml::SVMRegressor", {x}, changed(svm, "kernel_type", std::string("WARM"))}, "WARM");
  expect_call_refused({"ai.onnx.ml::SVMRegressor", {x}, changed(svm, "kernel_params", Reals{1})}, "kernel_params");
  const ir::Attributes classes{{"classlabels_ints", Integers{0, 1}},
                               {"coefficients", Reals{1}},
                               {"support_vectors", Reals{1, 1, 1}},
                               {"rho", Reals{0}},
                               {"vectors_per_class", Integers{1, 0}}};
  expect_call_refused(
      {"ai.onnx.ml::SVMClassifier", {x}, changed(classes, "vectors_per_class", Integers{kHigh, kHigh}), 2},
      "vectors_per_class has the entry");
  expect_call_refused({"ai.onnx.ml::SVMClassifier", {x}, changed(classes, "vectors_per_class", Integers{2, -1}), 2},
                      "vectors_per_class has the entry -1");
  expect_call_refused({"ai.onnx.ml::SVMClassifier", {x}, changed(classes, "vectors_per_class", Integers{1}), 2},
                      "vectors_per_class");
  expect_call_refused({"ai.onnx.ml::SVMClassifier", {x}, changed(classes, "prob_a", Reals{1, 2}), 2}, "");
  for (const std::int64_t targets : {std::int64_t{0}, std::int64_t{5}, kHigh, kLow}) {
    expect_call_refused({"ai.onnx.ml::LinearRegressor", {x}, {{"coefficients", Reals{1, 2, 3}}, {"targets", targets}}},
                        "");
  }
  expect_call_refused(
      {"ai.onnx.ml::LinearClassifier", {x}, {{"coefficients", Reals{1, 2}}, {"classlabels_ints", Integers{0, 1}}}, 2},
      "2 coefficients do not fit 3 features");
  expect_call_refused({"ai.onnx.ml::Scaler", {x}, {{"offset", Reals{1, 2}}, {"scale", Reals{1}}}}, "");
  expect_call_refused({"ai.onnx.ml::Imputer", {x}, {{"imputed_value_floats", Reals{1, 2}}}}, "");
  expect_call_refused({"ai.onnx.ml::CategoryMapper",
                       {zeros({2}, DType::i64)},
                       {{"cats_int64s", Integers{1, 2}}, {"cats_strings", Texts{"a"}}}},
                      "cats_int64s has 2 entries, cats_strings 1");
  expect_call_refused({"ai.onnx.ml::LabelEncoder", {x}, {{"keys_floats", Reals{1, 2}}, {"values_floats", Reals{1}}}},
                      "2 keys, but 1 values");
  expect_call_refused({"ai.onnx.ml::LabelEncoder", {x}, {{"keys_int64s", Integers{1}}, {"values_floats", Reals{1}}}},
                      "the keys are i64, but X is f32");
  expect_call_gives(
      {"ai.onnx.ml::OneHotEncoder", {Tensor::from<float>({1, 3}, {NAN, 1, INFINITY})}, {{"cats_int64s", Integers{1}}}},
      Tensor::from<float>({1, 3, 1}, {0, 1, 0}));
  expect_call_refused({"ai.onnx.ml::OneHotEncoder", {x}, {{"cats_int64s", Integers{1}}, {"zeros", std::int64_t{0}}}},
                      "unknown category '0'");
  expect_call_refused({"ai.onnx.ml::FeatureVectorizer", {x, x}, {{"inputdimensions", Integers{3}}}},
                      "inputdimensions has 1 entries for 2 inputs");
}

TEST(HostileAttribute, TextsAndGrams) {
  const ir::Attributes grams{{"mode", std::string("TF")},          {"min_gram_length", std::int64_t{1}},
                             {"max_gram_length", std::int64_t{2}}, {"max_skip_count", std::int64_t{0}},
                             {"ngram_counts", Integers{0, 2}},     {"ngram_indexes", Integers{0, 1, 2}},
                             {"pool_int64s", Integers{2, 3, 5, 4}}};
  const Tensor row = Tensor::from<std::int64_t>({6}, {1, 2, 3, 5, 4, 2});
  const auto call = [&](std::string_view name, ir::Attribute value) {
    return OpCall{"TfIdfVectorizer", {row}, changed(grams, name, std::move(value))};
  };
  expect_call_gives({"TfIdfVectorizer", {row}, grams}, Tensor::from<float>({3}, {2, 1, 1}));
  for (const Integers& starts : {Integers{0, 9}, Integers{3, 1}, Integers{-1, 2}, Integers{kLow, kHigh}, Integers{}})
    expect_call_refused(call("ngram_counts", starts), "");
  for (const Integers& indexes :
       {Integers{0, 1}, Integers{0, 1, -2}, Integers{0, 1, kTera}, Integers{0, 1, kHigh}, Integers{}})
    expect_call_refused(call("ngram_indexes", indexes), "");
  expect_call_harmless(call("max_skip_count", kHigh));
  expect_call_refused(call("max_skip_count", std::int64_t{-1}), "");
  for (const std::int64_t length : {std::int64_t{0}, kLow}) expect_call_refused(call("min_gram_length", length), "");
  expect_call_harmless(call("max_gram_length", kHigh));
  expect_call_refused(call("mode", std::string("XX")), "");
  expect_call_refused(call("weights", Reals{1}), "");
  const Tensor words = Tensor::from<std::string>({2}, {"a\xff", "b c"});
  expect_call_refused({"StringNormalizer", {words}, {{"case_change_action", std::string("SHOUT")}}}, "SHOUT");
  expect_call_refused({"StringNormalizer", {Tensor::from<std::string>({2, 1}, {"a", "b"})}}, "");
  expect_call_harmless(
      {"StringNormalizer",
       {words},
       {{"case_change_action", std::string("UPPER")}, {"stopwords", Texts{std::string("\0", 1), "\xf0\x9f"}}}});
  expect_call_harmless({"StringSplit", {words}, {{"maxsplit", kLow}}, 2});
  expect_call_harmless({"StringSplit", {words}, {{"delimiter", std::string("\0", 1)}, {"maxsplit", kHigh}}, 2});
  expect_call_refused({"RegexFullMatch", {words}, {{"pattern", std::string("(")}}}, "");
  expect_call_refused({"RegexFullMatch", {words}, {{"pattern", std::string("(a{1000}){1000}")}}}, "");
  expect_call_harmless({"RegexFullMatch",
                        {Tensor::from<std::string>({1}, {std::string(100'000, 'a')})},
                        {{"pattern", std::string("(a*)*b")}}});
  // One long text makes room for as many words in every row.
  std::vector<std::string> rows(3000, "a");
  rows[0] = std::string(2'000'000, ' ');
  for (std::size_t i = 0; i < rows[0].size(); i += 2) rows[0][i] = 'b';
  expect_call_refused({"StringSplit", {Tensor::from<std::string>({3000}, std::span<const std::string>(rows))}, {}, 2},
                      "");
}

}  // namespace
}  // namespace tessera::test::hostile_attribute_test
