#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backends/host/numeric.h"
#include "support/against_reference.h"

namespace tessera::test::cpu_tree_ensemble_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const char* const kModes[] = {"BRANCH_LEQ", "BRANCH_GT", "BRANCH_LT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ"};
// Splits and elements, so that many are equal.
const float kNumbers[] = {-2,     -1.5f, -1,   -0.5f, -1e-45f, -0.0f, 0.0f,  1e-45f,    3e-39f,
                          1e-38f, 0.1f,  0.5f, 1,     1.5f,    2,     3e38f, kInfinity, -kInfinity};

// What a random forest is made of.
struct ForestShape {
  std::int64_t trees = 20, depth = 6, features = 5, targets = 1;
  int modes = 1;         // the first of kModes
  bool missing = false;  // whether NaN leads to either side
  bool nan_splits = false;
  std::string votes = "one";  // "one" target in a tree, "any", "all" targets, "twice" the same, "some" of them
};

// Trees in the lists of TreeEnsembleClassifier ("class") and -Regressor ("target").
class RandomForest {
 public:
  RandomForest(const ForestShape& shape, std::uint64_t seed) : shape_(shape), generator_(seed) {
    for (tree_ = 0; tree_ < shape.trees; ++tree_) {
      next_ = 0;
      grow(tree_ % 7 == 3 ? 0 : shape.depth);
    }
  }

  ir::Attributes attributes(const std::string& vote) const {
    ir::Attributes result{
        {"nodes_treeids", trees_},      {"nodes_nodeids", ids_},           {"nodes_featureids", features_},
        {"nodes_values", splits_},      {"nodes_modes", modes_},           {"nodes_truenodeids", yes_},
        {"nodes_falsenodeids", no_},    {vote + "_treeids", vote_trees_},  {vote + "_nodeids", vote_nodes_},
        {vote + "_ids", vote_targets_}, {vote + "_weights", vote_weights_}};
    if (shape_.missing) result["nodes_missing_value_tracks_true"] = missing_;
    return result;
  }

 private:
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(count));
  }

  std::int64_t grow(std::int64_t depth) {
    const std::int64_t id = next_++;
    const std::size_t at = ids_.size();
    const bool leaf = depth == 0 || below(8) == 0;
    trees_.push_back(tree_), ids_.push_back(id), features_.push_back(below(shape_.features));
    splits_.push_back(shape_.nan_splits && below(10) == 0 ? NAN : kNumbers[below(std::size(kNumbers))]);
    modes_.push_back(leaf ? "LEAF" : kModes[below(shape_.modes)]);
    missing_.push_back(below(2)), yes_.push_back(0), no_.push_back(0);
    if (leaf) {
      vote(id);
      return id;
    }
    const std::int64_t yes = grow(depth - 1), no = grow(below(4) == 0 ? 0 : depth - 1);
    yes_[at] = yes, no_[at] = no;
    return id;
  }

  void vote(std::int64_t id) {
    const auto give = [&](std::int64_t target) {
      vote_trees_.push_back(tree_), vote_nodes_.push_back(id), vote_targets_.push_back(target);
      vote_weights_.push_back(static_cast<float>(below(7) - 3) / 10);
    };
    if (shape_.votes == "one") give(tree_ % shape_.targets);
    if (shape_.votes == "any" || shape_.votes == "twice") give(below(shape_.targets));
    if (shape_.votes == "twice") give(vote_targets_.back());
    for (std::int64_t target = 0; target < shape_.targets; ++target) {
      if (shape_.votes == "all" || (shape_.votes == "some" && below(3) == 0)) give(target);
    }
  }

  ForestShape shape_;
  std::mt19937_64 generator_;
  std::int64_t tree_ = 0, next_ = 0;
  Integers trees_, ids_, features_, yes_, no_, missing_, vote_trees_, vote_nodes_, vote_targets_;
  Reals splits_, vote_weights_;
  Texts modes_;
};

Tensor random_rows(std::int64_t rows, std::int64_t columns, std::uint64_t seed, bool with_nan = true) {
  std::mt19937_64 generator(seed);
  Tensor x(DType::f32, {rows, columns});
  for (float& value : std::span(x.mutable_data<float>(), static_cast<std::size_t>(rows * columns)))
    value = with_nan && generator() % 9 == 0 ? NAN : kNumbers[generator() % std::size(kNumbers)];
  return x;
}

Tensor cast(const Tensor& x, DType type) {
  Tensor result(type, x.shape());
  backends::host::write(backends::host::read<double>(x), result);
  return result;
}

OpCall regressor(const Tensor& x, const ForestShape& shape, std::uint64_t seed = 1) {
  ir::Attributes attributes = RandomForest(shape, seed).attributes("target");
  attributes["n_targets"] = shape.targets;
  return {"ai.onnx.ml::TreeEnsembleRegressor", {x}, attributes};
}

OpCall classifier(const Tensor& x, const ForestShape& shape, std::uint64_t seed = 1) {
  ir::Attributes attributes = RandomForest(shape, seed).attributes("class");
  Integers labels;
  for (std::int64_t i = 0; i < shape.targets; ++i) labels.push_back(90 - i);
  attributes["classlabels_int64s"] = labels;
  return {"ai.onnx.ml::TreeEnsembleClassifier", {x}, attributes, 2};
}

TEST(CpuTreeEnsemble, MatchesReferenceForAnyNumberOfRows) {
  for (const std::int64_t rows : {1, 2, 10, 23, 24, 47, 48, 65, 300, 1000}) {
    for (const std::int64_t columns : {5, 37, 700})
      expect_matches_reference(regressor(random_rows(rows, columns, 7), {.trees = 30}));
  }
}

TEST(CpuTreeEnsemble, MatchesReferenceForAnyForest) {
  for (const std::int64_t trees : {1, 2, 17, 70, 300}) {
    for (const std::int64_t depth : {0, 1, 3, 4, 5, 9}) {
      for (const std::int64_t features : {1, 2, 9}) {
        const ForestShape shape{
            .trees = trees, .depth = trees > 100 ? std::min<std::int64_t>(depth, 4) : depth, .features = features};
        for (const std::int64_t rows : {3, 70}) expect_matches_reference(regressor(random_rows(rows, 9, 5), shape));
      }
    }
  }
}

TEST(CpuTreeEnsemble, MatchesReferenceForAllComparisons) {
  for (const int modes : {1, 2, 4, 6}) {
    for (const bool missing : {false, true}) {
      const ForestShape shape{.depth = 8, .modes = modes, .missing = missing, .nan_splits = true};
      for (const std::int64_t rows : {4, 200}) expect_matches_reference(regressor(random_rows(rows, 6, 3), shape));
    }
  }
}

TEST(CpuTreeEnsemble, MatchesReferenceForAllVotes) {
  for (const char* votes : {"one", "any", "all", "twice", "some"}) {
    for (const std::int64_t targets : {1, 2, 3, 7, 11, 16, 21}) {
      for (const std::int64_t rows : {5, 90}) {
        SCOPED_TRACE(std::string(votes) + ", " + std::to_string(targets) + " targets");
        const ForestShape shape{.trees = 9, .depth = 4, .targets = targets, .missing = true, .votes = votes};
        const Tensor x = random_rows(rows, 5, 11);
        for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"}) {
          OpCall call = regressor(x, shape);
          call.attributes["aggregate_function"] = std::string(aggregate);
          call.attributes["base_values"] = Reals(static_cast<std::size_t>(targets), 0.3f);
          expect_matches_reference(call);
        }
        if (targets < 2) continue;
        for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}) {
          OpCall call = classifier(x, shape);
          call.attributes["post_transform"] = std::string(transform);
          expect_matches_reference(call);
          call.attributes["base_values"] = Reals{0.25f};
          expect_matches_reference(call);
        }
      }
    }
  }
}

TEST(CpuTreeEnsemble, WritesLabelsOfText) {
  OpCall call = classifier(random_rows(50, 5, 2), {.targets = 3, .votes = "any"});
  call.attributes.erase("classlabels_int64s");
  call.attributes["classlabels_strings"] = Texts{"cat", "dog", "a name that is longer than others"};
  expect_matches_reference(call);
}

TEST(CpuTreeEnsemble, TakesOneRowAsAVector) {
  expect_matches_reference(classifier(random_rows(1, 6, 2).reshaped({6}), {.targets = 3, .votes = "all"}));
}

TEST(CpuTreeEnsemble, TakesOtherElementTypes) {
  const ForestShape shape{.depth = 7, .targets = 3, .modes = 2, .missing = true, .votes = "all"};
  for (const std::int64_t rows : {6, 130}) {
    for (const DType type : {DType::i32, DType::i64}) {
      const Tensor x = cast(random_rows(rows, 5, 9, false), type);
      expect_matches_reference(classifier(x, shape));
      expect_matches_reference(regressor(x, shape));
    }
    Tensor x = cast(random_rows(rows, 5, 9), DType::f64);
    for (std::int64_t i = 0; i < x.elements(); i += 3) {
      double& value = x.mutable_data<double>()[i];
      value = std::nextafter(value, i % 2 == 0 ? 1e300 : -1e300);
    }
    x.mutable_data<double>()[0] = 1e300;
    x.mutable_data<double>()[1] = -1e300;
    expect_matches_reference(classifier(x, shape));
    expect_matches_reference(regressor(x, shape));
  }
}

// TreeEnsemble of complete trees of three nodes.
OpCall new_ensemble(const Tensor& x, DType type, std::int64_t trees, int modes) {
  std::mt19937_64 generator(4);
  Integers features, yes, no, leaf, roots, targets;
  std::vector<double> splits, weights;
  Tensor kinds(DType::u8, {3 * trees});
  for (std::int64_t tree = 0; tree < trees; ++tree) {
    roots.push_back(3 * tree);
    for (int node = 0; node < 3; ++node) {
      kinds.mutable_data<std::uint8_t>()[3 * tree + node] =
          static_cast<std::uint8_t>(generator() % static_cast<std::uint64_t>(modes));
      features.push_back(static_cast<std::int64_t>(generator() % 4));
      splits.push_back(kNumbers[generator() % std::size(kNumbers)]);
      leaf.push_back(node == 0 ? 0 : 1);
      yes.push_back(node == 0 ? 3 * tree + 1 : 4 * tree + 2 * node - 2);
      no.push_back(node == 0 ? 3 * tree + 2 : 4 * tree + 2 * node - 1);
    }
    for (int i = 0; i < 4; ++i) {
      targets.push_back(static_cast<std::int64_t>(generator() % 2));
      weights.push_back(static_cast<double>(generator() % 9) / 8 - 0.5);
    }
  }
  const auto tensor = [&](const std::vector<double>& values) {
    Tensor result(type, {static_cast<std::int64_t>(values.size())});
    backends::host::write(values, result);
    return result;
  };
  return {"ai.onnx.ml::TreeEnsemble",
          {x},
          {{"nodes_featureids", features},
           {"nodes_splits", tensor(splits)},
           {"nodes_modes", kinds},
           {"nodes_truenodeids", yes},
           {"nodes_trueleafs", leaf},
           {"nodes_falsenodeids", no},
           {"nodes_falseleafs", leaf},
           {"leaf_targetids", targets},
           {"leaf_weights", tensor(weights)},
           {"n_targets", std::int64_t{2}},
           {"tree_roots", roots}}};
}

TEST(CpuTreeEnsemble, MatchesReferenceForTheNewOperator) {
  for (const std::int64_t rows : {1, 30, 333}) {
    const Tensor x = random_rows(rows, 4, 21);
    for (const std::int64_t aggregate : {0, 1, 2, 3}) {
      OpCall call = new_ensemble(x, DType::f32, 40, 6);
      call.attributes["aggregate_function"] = aggregate;
      expect_matches_reference(call);
    }
    expect_matches_reference(new_ensemble(x, DType::f64, 40, 6));  // splits of another type than the input
    expect_matches_reference(new_ensemble(cast(x, DType::f16), DType::f16, 40, 6));
    OpCall call = new_ensemble(cast(x, DType::f64), DType::f64, 40, 1);
    expect_matches_reference(call);
  }
}

TEST(CpuTreeEnsemble, ComparesWithSplitsBetweenFloats) {
  OpCall call = regressor(random_rows(100, 5, 9), {.depth = 7, .modes = 6, .missing = true});
  const Reals splits = std::get<Reals>(call.attributes.at("nodes_values"));
  Tensor wide(DType::f64, {static_cast<std::int64_t>(splits.size())});
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const double toward = i % 3 == 0 ? -1e300 : 1e300;
    wide.mutable_data<double>()[i] = i % 4 == 0 ? splits[i] : std::nextafter(static_cast<double>(splits[i]), toward);
  }
  call.attributes.erase("nodes_values");
  call.attributes["nodes_values_as_tensor"] = wide;
  expect_matches_reference(call);
}

TEST(CpuTreeEnsemble, LeavesTheRestToTheReference) {
  const Tensor wide = cast(random_rows(3, 5, 1), DType::f64);
  EXPECT_EQ(chosen_cpu_kernel(regressor(wide, {.modes = 2})), "cpu_tree_ensemble");
  EXPECT_EQ(chosen_cpu_kernel(regressor(wide, {.modes = 6})), "reference_tree_ensemble");
  OpCall call = new_ensemble(random_rows(3, 4, 1), DType::f32, 2, 1);
  EXPECT_EQ(chosen_cpu_kernel(call), "cpu_tree_ensemble");
  Tensor kinds(DType::u8, {6});
  std::fill_n(kinds.mutable_data<std::uint8_t>(), 6, std::uint8_t{6});
  call.attributes["nodes_modes"] = kinds;
  call.attributes["membership_values"] = Tensor::from<float>({12}, {1, NAN, 1, NAN, 1, NAN, 1, NAN, 1, NAN, 1, NAN});
  EXPECT_EQ(chosen_cpu_kernel(call), "reference_tree_ensemble");
}

}  // namespace
}  // namespace tessera::test::cpu_tree_ensemble_test
