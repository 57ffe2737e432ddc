// Operators of ai.onnx.ml, on strings and on pictures.
#include "support/op_examples.h"

namespace tessera::test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor list_of(DType type, std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return make_value(at({count}, std::move(values)), type).tensor();
}

ir::Attributes keys(DType type) {
  return {{"keys_tensor", list_of(type, {1, 3, 0})}, {"values_int64s", whole_list({7, 8, 9})}};
}
ir::Attributes labels(DType type) {
  return {{"keys_int64s", whole_list({1, 3, 0})},
          {"values_tensor", list_of(type, {7, 8, 9})},
          {"default_tensor", list_of(type, {5})}};
}

// x[0] < 1 ? 0.5 : 2
ir::Attributes tree_of(DType type) {
  return {{"nodes_featureids", whole_list({0})},
          {"nodes_splits", list_of(type, {1})},
          {"nodes_modes", list_of(DType::u8, {1})},
          {"nodes_truenodeids", whole_list({0})},
          {"nodes_trueleafs", whole_list({1})},
          {"nodes_falsenodeids", whole_list({1})},
          {"nodes_falseleafs", whole_list({1})},
          {"leaf_targetids", whole_list({0, 0})},
          {"leaf_weights", list_of(type, {0.5, 2})},
          {"tree_roots", whole_list({0})},
          {"n_targets", whole(1)}};
}

ir::Attributes tree_lists(const std::string& vote, ir::Attributes more) {
  ir::Attributes tree{
      {"nodes_treeids", whole_list({0, 0, 0})},      {"nodes_nodeids", whole_list({0, 1, 2})},
      {"nodes_featureids", whole_list({0, 0, 0})},   {"nodes_modes", text_list({"BRANCH_LEQ", "LEAF", "LEAF"})},
      {"nodes_values", real_list({0.5f, 0, 0})},     {"nodes_truenodeids", whole_list({1, 0, 0})},
      {"nodes_falsenodeids", whole_list({2, 0, 0})}, {vote + "_treeids", whole_list({0, 0})},
      {vote + "_nodeids", whole_list({1, 2})},       {vote + "_ids", whole_list({0, 1})},
      {vote + "_weights", real_list({1, 2})}};
  tree.merge(more);
  return tree;
}

}  // namespace

std::vector<OpExample> feature_examples() {
  const ExampleOperand rows = at({2, 3}, {1, 2.5, 0, 3});
  const ir::Attribute coefficients = real_list({1, -0.5f, 2, 0.5f, 1, -1}), intercepts = real_list({0.5f, 1});
  const ir::Attribute numbers = whole_list({3, 4}), names = text_list({"a", "b"});
  const ir::Attributes vectors{{"coefficients", real_list({1, -0.5f})},
                               {"support_vectors", real_list({1, 0, 2, 0.5f, 1, 1})},
                               {"rho", real_list({0.5f})},
                               {"kernel_type", text("RBF")},
                               {"kernel_params", real_list({0.5f, 0, 3})}};
  ir::Attributes regression = vectors, classes = vectors, named_classes = vectors;
  regression.insert({"n_supports", whole(2)});
  classes.insert({{"vectors_per_class", whole_list({1, 1})}, {"classlabels_ints", numbers}});
  named_classes.insert({{"vectors_per_class", whole_list({1, 1})}, {"classlabels_strings", names}});
  const ExampleOperand picture = at({12}, {'P', '5', ' ', '2', ' ', '1', ' ', '9', '9', '\n', 7, 8});
  const ir::Attributes grams{{"mode", text("TF")},
                             {"min_gram_length", whole(1)},
                             {"max_gram_length", whole(1)},
                             {"max_skip_count", whole(0)},
                             {"ngram_counts", whole_list({0})},
                             {"ngram_indexes", whole_list({0, 1})},
                             {"pool_int64s", whole_list({1, 3})},
                             {"pool_strings", text_list({"1", "3"})}};
  return {
      {.op = "ai.onnx.ml::LabelEncoder", .operands = {rows}, .attributes_follow = "X", .follow = keys},
      {.op = "ai.onnx.ml::LabelEncoder",
       .operands = {as(DType::i64, rows)},
       .attributes_follow = "Y",
       .follow = labels},
      {"ai.onnx.ml::ArrayFeatureExtractor", {rows, integers({2, 0})}},
      {"ai.onnx.ml::Binarizer", {rows}, {{"threshold", real(1)}}},
      {"ai.onnx.ml::Scaler", {rows}, {{"offset", real_list({1})}, {"scale", real_list({0.5f, 2, 1})}}},
      {"ai.onnx.ml::Normalizer", {rows}, {{"norm", text("L2")}}},
      {"ai.onnx.ml::Imputer",
       {rows},
       {{"imputed_value_floats", real_list({7})}, {"imputed_value_int64s", whole_list({7})}}},
      {"ai.onnx.ml::OneHotEncoder", {rows}, {{"cats_int64s", whole_list({1, 3})}}, 1, {{"X", ops::types::numbers}}},
      {"ai.onnx.ml::OneHotEncoder", {rows}, {{"cats_strings", text_list({"1", "3"})}}, 1, {{"X", ops::types::text}}},
      {"ai.onnx.ml::FeatureVectorizer", {rows, at({2, 1})}, {{"inputdimensions", whole_list({3, 1})}}},
      {"ai.onnx.ml::CategoryMapper",
       {rows},
       {{"cats_int64s", whole_list({1, 3})}, {"cats_strings", text_list({"1", "3"})}}},
      {.op = "ai.onnx.ml::TreeEnsemble", .operands = {rows}, .attributes_follow = "X", .follow = tree_of},
      {"ai.onnx.ml::TreeEnsembleClassifier", {rows}, tree_lists("class", {{"classlabels_int64s", numbers}}), 2},
      {"ai.onnx.ml::TreeEnsembleClassifier", {rows}, tree_lists("class", {{"classlabels_strings", names}}), 2},
      {"ai.onnx.ml::TreeEnsembleRegressor", {rows}, tree_lists("target", {{"n_targets", whole(2)}})},
      {"ai.onnx.ml::LinearRegressor",
       {rows},
       {{"coefficients", coefficients}, {"intercepts", intercepts}, {"targets", whole(2)}}},
      {"ai.onnx.ml::LinearClassifier",
       {rows},
       {{"coefficients", coefficients}, {"intercepts", intercepts}, {"classlabels_ints", numbers}},
       2},
      {"ai.onnx.ml::LinearClassifier", {rows}, {{"coefficients", coefficients}, {"classlabels_strings", names}}, 2},
      {"tessera::SquaredDistances", {rows, at({4, 3})}},
      {"ai.onnx.ml::SVMRegressor", {rows}, regression},
      {"ai.onnx.ml::SVMClassifier", {rows}, classes, 2},
      {"ai.onnx.ml::SVMClassifier", {rows}, named_classes, 2},
      {"ai.onnx.ml::ZipMap", {rows}, {{"classlabels_strings", text_list({"a", "b", "c"})}}},
      {"ai.onnx.ml::DictVectorizer",
       {map(DType::i64, {number(2), number(1.5)})},
       {{"int64_vocabulary", whole_list({1, 5, 0})}},
       1,
       {{"X", {DType::f32, DType::f64, DType::i64, DType::string}}}},
      {"ai.onnx.ml::DictVectorizer",
       {map(DType::string, {number(2), number(1.5)})},
       {{"string_vocabulary", text_list({"1", "5", "0"})}},
       1,
       {{"X", {DType::f32, DType::f64, DType::i64, DType::string}}}},
      {"ai.onnx.ml::CastMap", {map(DType::i64, {number(2), number(1.5)})}, {}, 1, {{"X", {DType::f32, DType::string}}}},
      {"ai.onnx.ml::CastMap",
       {map(DType::i64, {number(2), number(1)})},
       {{"cast_to", text("TO_INT64")}},
       1,
       {{"X", {DType::f32, DType::string}}}},
      {"ai.onnx.ml::CastMap",
       {map(DType::i64, {number(2), number(1)})},
       {{"cast_to", text("TO_STRING")}, {"map_form", text("SPARSE")}, {"max_map", whole(3)}},
       1,
       {{"X", {DType::f32, DType::string}}}},
      {"TfIdfVectorizer", {rows}, grams},
      {"StringConcat", {rows, at({3})}},
      {"StringNormalizer", {at({3})}, {{"case_change_action", text("UPPER")}, {"stopwords", text_list({"1"})}}},
      {"com.microsoft::Tokenizer",
       {rows},
       {{"mark", whole(1)},
        {"mincharnum", whole(1)},
        {"pad_value", text("#")},
        {"separators", text_list({"[.]", "-"})}}},
      {"com.microsoft::Tokenizer",
       {rows},
       {{"mark", whole(0)}, {"mincharnum", whole(2)}, {"pad_value", text("#")}, {"tokenexp", text("[0-9]+")}}},
      {"StringSplit", {rows}, {{"delimiter", text(".")}}, 2},
      {"RegexFullMatch", {rows}, {{"pattern", text("[0-9]+")}}},
      {"ImageDecoder", {picture}, {{"pixel_format", text("Grayscale")}}},
  };
}

}  // namespace tessera::test
