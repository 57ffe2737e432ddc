#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backends/host/numeric.h"
#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::tree_ensemble_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

// One tree: x0 <= 0 gives leaf 1, else leaf 2.
ir::Attributes stump(const std::string& vote, Integers targets, Reals weights) {
  return {{"nodes_treeids", Integers{0, 0, 0}},
          {"nodes_nodeids", Integers{0, 1, 2}},
          {"nodes_featureids", Integers{0, 0, 0}},
          {"nodes_values", Reals{0, 0, 0}},
          {"nodes_modes", Texts{"BRANCH_LEQ", "LEAF", "LEAF"}},
          {"nodes_truenodeids", Integers{1, 0, 0}},
          {"nodes_falsenodeids", Integers{2, 0, 0}},
          {vote + "_treeids", Integers{0, 0}},
          {vote + "_nodeids", Integers{1, 2}},
          {vote + "_ids", std::move(targets)},
          {vote + "_weights", std::move(weights)}};
}

const Tensor kRows = Tensor::from<float>({3, 1}, {-1, 1, NAN});

TEST(TreeEnsembleRegressor, WalksToLeavesAndAddsTheBase) {
  ir::Attributes attributes = stump("target", {0, 0}, {2, 5});
  attributes["base_values"] = Reals{10};
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::TreeEnsembleRegressor", {kRows}, attributes}),
                       Tensor::from<float>({3, 1}, {12, 15, 15})));
  attributes["nodes_missing_value_tracks_true"] = Integers{1, 0, 0};
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::TreeEnsembleRegressor", {kRows}, attributes}),
                       Tensor::from<float>({3, 1}, {12, 15, 12})));
}

TEST(TreeEnsembleClassifier, NamesTheBestClass) {
  ir::Attributes attributes = stump("class", {0, 1}, {1, 1});
  attributes["classlabels_strings"] = Texts{"cat", "dog"};
  const std::vector<Value> y = run_op({"ai.onnx.ml::TreeEnsembleClassifier", {kRows}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::string>({3}, {"cat", "dog", "dog"})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({3, 2}, {1, 0, 0, 1, 0, 1})));
}

TEST(TreeEnsembleClassifier, OneVotedClassOfTwoIsTheSecond) {
  ir::Attributes attributes = stump("class", {0, 0}, {0.25f, 0.75f});
  attributes["classlabels_int64s"] = Integers{3, 7};
  const std::vector<Value> y = run_op({"ai.onnx.ml::TreeEnsembleClassifier", {kRows}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::int64_t>({3}, {3, 7, 7})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({3, 2}, {0.75f, 0.25f, 0.25f, 0.75f, 0.25f, 0.75f})));
}

// Ten trees of one leaf; those that vote give class 0, which stands for the second of two, 0.1f.
ir::Attributes ten_leaves(std::size_t voters) {
  Integers trees(10);
  std::iota(trees.begin(), trees.end(), 0);
  const Integers zeros(10, 0);
  const Reals zero_reals(10, 0.0f);
  Reals weights(10, 0.0f);
  std::fill_n(weights.begin(), voters, 0.1f);
  return {{"nodes_treeids", trees},           {"nodes_nodeids", zeros},
          {"nodes_featureids", zeros},        {"nodes_values", zero_reals},
          {"nodes_truenodeids", zeros},       {"nodes_falsenodeids", zeros},
          {"nodes_modes", Texts(10, "LEAF")}, {"class_treeids", trees},
          {"class_nodeids", zeros},           {"class_ids", zeros},
          {"class_weights", weights},         {"classlabels_int64s", Integers{0, 1}}};
}

TEST(TreeEnsembleClassifier, SumsInThePrecisionOfItsInput) {
  const auto label = [](std::size_t voters, const Tensor& row) {
    const std::vector<Value> y = run_op({"ai.onnx.ml::TreeEnsembleClassifier", {row}, ten_leaves(voters), 2});
    return y[0].tensor().values<std::int64_t>()[0];
  };
  const Tensor single = Tensor::from<float>({1, 1}, {0}), wide = Tensor::from<double>({1, 1}, {0});
  // Five times 0.1f is exactly 0.5 in float32, which is no majority, and 0.5000000074… in double, which is one.
  EXPECT_EQ(label(5, single), 0);
  EXPECT_EQ(label(5, wide), 1);
  EXPECT_EQ(label(6, single), 1);
}

TEST(TreeEnsembleClassifier, SoftmaxLeavesThePairOfOneScoreAsItIs) {
  ir::Attributes attributes = stump("class", {0, 0}, {0.25f, 0.75f});
  attributes["classlabels_int64s"] = Integers{3, 7};
  attributes["post_transform"] = std::string("SOFTMAX");
  const std::vector<Value> y = run_op({"ai.onnx.ml::TreeEnsembleClassifier", {kRows}, attributes, 2});
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({3, 2}, {0.75f, 0.25f, 0.25f, 0.75f, 0.25f, 0.75f})));
}

TEST(TreeEnsembleClassifier, AClassWithABaseValueTakesPartWithoutAVote) {
  ir::Attributes attributes = stump("class", {0, 1}, {1, 1});
  attributes["classlabels_int64s"] = Integers{3, 7, 9};
  attributes["base_values"] = Reals{0, 0, 5};
  const std::vector<Value> y = run_op({"ai.onnx.ml::TreeEnsembleClassifier", {kRows}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::int64_t>({3}, {9, 9, 9})));
}

std::string error_of(const ir::Attributes& attributes) {
  try {
    run_op({"ai.onnx.ml::TreeEnsembleRegressor", {kRows}, attributes});
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(TreeEnsemble, TakesHalfPrecision) {
  const auto halves = [](std::vector<double> values) {
    Tensor tensor(DType::f16, {static_cast<std::int64_t>(values.size())});
    backends::host::write(values, tensor);
    return tensor;
  };
  const Integers zero{0}, one{1};
  const ir::Attributes tree{{"nodes_featureids", zero},
                            {"nodes_splits", halves({0.5})},
                            {"nodes_modes", Tensor::from<std::uint8_t>({1}, {0})},
                            {"nodes_truenodeids", zero},
                            {"nodes_trueleafs", one},
                            {"nodes_falsenodeids", one},
                            {"nodes_falseleafs", one},
                            {"leaf_targetids", Integers{0, 0}},
                            {"leaf_weights", halves({1.5, 4})},
                            {"tree_roots", zero}};
  EXPECT_TRUE(identical(run_op_tensor({"ai.onnx.ml::TreeEnsemble", {halves({0, 1}).reshaped({2, 1})}, tree}),
                        halves({1.5, 4}).reshaped({2, 1})));
}

TEST(TreeEnsemble, RefusesBrokenTrees) {
  ir::Attributes attributes = stump("target", {0, 0}, {2, 5});
  attributes["nodes_truenodeids"] = Integers{0, 0, 0};
  EXPECT_EQ(error_of(attributes), "node 0 of the tree ensemble has more than one parent");
  attributes["nodes_truenodeids"] = Integers{9, 0, 0};
  EXPECT_EQ(error_of(attributes), "tree 0 has no node 9");
  attributes = stump("target", {0, 3}, {2, 5});
  EXPECT_EQ(error_of(attributes), "attribute 'target_ids' has the entry 3, expected less than 1");
  attributes = stump("target", {0, 0}, {2, 5});
  attributes["nodes_featureids"] = Integers{4, 0, 0};
  EXPECT_EQ(error_of(attributes), "a node looks at feature 4 of 1");
  attributes["nodes_featureids"] = Integers{0, 0};
  EXPECT_EQ(error_of(attributes), "attribute 'nodes_featureids' has 2 entries, expected 3");
}

}  // namespace
}  // namespace tessera::test::tree_ensemble_test
