#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/numeric.h"
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
    backends::reference::write(values, tensor);
    return tensor;
  };
  const Integers zero{0}, one{1};
  const ir::Attributes tree{{"nodes_featureids", zero}, {"nodes_splits", halves({0.5})}, {"nodes_modes", Tensor::from<std::uint8_t>({1}, {0})},
                            {"nodes_truenodeids", zero}, {"nodes_trueleafs", one}, {"nodes_falsenodeids", one}, {"nodes_falseleafs", one},
                            {"leaf_targetids", Integers{0, 0}}, {"leaf_weights", halves({1.5, 4})}, {"tree_roots", zero}};
  EXPECT_TRUE(identical(run_op_tensor({"ai.onnx.ml::TreeEnsemble", {halves({0, 1}).reshaped({2, 1})}, tree}), halves({1.5, 4}).reshaped({2, 1})));
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
