#include "ops/classical/tree_ensemble.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"
#include "ops/classical/node_order.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

std::vector<double> reals_of_tree_ensemble(const Tensor& tensor) {
  std::vector<double> values;
  if (tensor.dtype() == DType::f32) values.assign(tensor.values<float>().begin(), tensor.values<float>().end());
  else if (tensor.dtype() == DType::f64) values.assign(tensor.values<double>().begin(), tensor.values<double>().end());
  else if (tensor.dtype() == DType::f16)
    for (const f16_t value : tensor.values<f16_t>()) values.push_back(base::to_float(value));
  else
    fail(ErrorKind::unsupported, "a tensor of {} in a tree ensemble, expected f16, f32 or f64",
         name_of(tensor.dtype()));
  return values;
}

// The attribute `name`, or `name`_as_tensor in double precision, or nothing.
std::vector<double> real_list(const AttributeReader& reader, const std::string& name) {
  if (reader.has_attribute(name + "_as_tensor")) return reals_of_tree_ensemble(reader.tensor(name + "_as_tensor"));
  if (!reader.has_attribute(name)) return {};
  const std::vector<float>& values = reader.reals(name);
  return {values.begin(), values.end()};
}

void check_length(std::string_view name, std::size_t length, std::size_t expected) {
  require(length == expected, ErrorKind::invalid_model, "attribute '{}' has {} entries, expected {}", name, length,
          expected);
}

void check_index(std::string_view name, std::int64_t index, std::int64_t count) {
  require(index >= 0 && index < count, ErrorKind::invalid_model,
          "attribute '{}' has the entry {}, expected less than {}", name, index, count);
}

// Throws when a node can be reached along two paths or from itself: then it is not a tree, and a walk might not end.
void check_trees(const Forest& forest) {
  std::vector<bool> seen(forest.nodes.size(), false);
  std::vector<std::int64_t> open(forest.roots);
  while (!open.empty()) {
    const std::int64_t at = open.back();
    open.pop_back();
    if (at < 0) continue;
    const auto i = static_cast<std::size_t>(at);
    require(!seen[i], ErrorKind::invalid_model, "node {} of the tree ensemble has more than one parent", at);
    seen[i] = true;
    open.push_back(forest.nodes[i].when_true);
    open.push_back(forest.nodes[i].when_false);
  }
}

void count_features(Forest& forest) {
  for (const Forest::Node& node : forest.nodes) {
    require(node.feature >= 0, ErrorKind::invalid_model, "a node looks at feature {}", node.feature);
    forest.features = std::max(forest.features, base::checked_add(node.feature, 1));
  }
}

// The sets of members, one per node that tests membership, are separated by NaN.
void read_members(const AttributeReader& reader, Forest& forest) {
  if (reader.has_attribute("membership_values"))
    forest.members = reals_of_tree_ensemble(reader.tensor("membership_values"));
  std::size_t next = 0;
  for (Forest::Node& node : forest.nodes) {
    if (node.comparison != Comparison::member) continue;
    require(next < forest.members.size(), ErrorKind::invalid_model, "membership_values has too few sets");
    node.first_member = next;
    while (next < forest.members.size() && forest.members[next] == forest.members[next]) ++next;
    node.last_member = next++;
  }
}

Forest read_tree_ensemble(const AttributeReader& reader) {
  Forest forest;
  const std::int64_t aggregation = reader.integer("aggregate_function"), transform = reader.integer("post_transform");
  check_index("aggregate_function", aggregation, 4);
  check_index("post_transform", transform, 5);
  forest.aggregation = static_cast<Aggregation>(aggregation);
  forest.post_transform = static_cast<PostTransform>(transform);
  forest.targets = reader.has_attribute("n_targets") ? reader.integer("n_targets") : 1;
  require(forest.targets >= 1, ErrorKind::invalid_model, "n_targets is {}, expected at least 1", forest.targets);
  const auto& features = reader.integers("nodes_featureids");
  const std::vector<double> splits = reals_of_tree_ensemble(reader.tensor("nodes_splits"));
  const Tensor& modes = reader.tensor("nodes_modes");
  require(modes.dtype() == DType::u8, ErrorKind::invalid_model, "nodes_modes is {}, expected u8",
          name_of(modes.dtype()));
  const std::vector<double> weights = reals_of_tree_ensemble(reader.tensor("leaf_weights"));
  const auto& targets = reader.integers("leaf_targetids");
  check_length("leaf_targetids", targets.size(), weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check_index("leaf_targetids", targets[i], forest.targets);
    forest.votes.push_back({targets[i], weights[i]});
    forest.leaves.push_back({i, i + 1});
  }
  const std::vector<std::int64_t> missing = reader.integers_or_empty("nodes_missing_value_tracks_true");
  const std::size_t count = features.size();
  for (const std::string_view name :
       {"nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"}) {
    check_length(name, reader.integers(name).size(), count);
  }
  check_length("nodes_splits", splits.size(), count);
  check_length("nodes_modes", static_cast<std::size_t>(modes.elements()), count);
  if (!missing.empty()) check_length("nodes_missing_value_tracks_true", missing.size(), count);
  const auto child = [&](std::string_view ids, std::string_view leafs, std::size_t i) {
    const std::int64_t id = reader.integers(ids)[i];
    const bool leaf = reader.integers(leafs)[i] != 0;
    check_index(ids, id, static_cast<std::int64_t>(leaf ? forest.leaves.size() : count));
    return leaf ? -1 - id : id;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t mode = modes.data<std::uint8_t>()[i];
    check_index("nodes_modes", mode, 7);
    forest.nodes.push_back({.comparison = static_cast<Comparison>(mode),
                            .missing_is_true = !missing.empty() && missing[i] != 0,
                            .feature = features[i],
                            .split = splits[i],
                            .when_true = child("nodes_truenodeids", "nodes_trueleafs", i),
                            .when_false = child("nodes_falsenodeids", "nodes_falseleafs", i)});
  }
  for (const std::int64_t root : reader.integers("tree_roots")) {
    check_index("tree_roots", root, static_cast<std::int64_t>(count));
    const Forest::Node& node = forest.nodes[static_cast<std::size_t>(root)];
    // A tree of one leaf is written as a node with that leaf on both sides.
    const bool single = node.when_true < 0 && node.when_true == node.when_false;
    forest.roots.push_back(single ? node.when_true : root);
  }
  read_members(reader, forest);
  return forest;
}

Comparison comparison_named(const std::string& name) {
  constexpr std::string_view names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  require(found != std::end(names), ErrorKind::invalid_model, "nodes_modes has the entry '{}'", name);
  return static_cast<Comparison>(found - std::begin(names));
}

// Reads the children of the nodes in the lists; `place` has each entry's number as a child.
void read_children(const AttributeReader& reader, const NodeOrder& nodes, const std::vector<std::int64_t>& place,
                   Forest& forest) {
  if (place.empty()) return;
  const std::vector<std::int64_t>&trees = reader.integers("nodes_treeids"), &ids = reader.integers("nodes_nodeids");
  const std::vector<std::int64_t>&yes = reader.integers("nodes_truenodeids"),
        &no = reader.integers("nodes_falsenodeids");
  // The nodes of most trees are numbered 0, 1 …, so that a child is about as many entries away as its number says.
  const auto child = [&](std::size_t i, std::int64_t id) {
    const NodeOrder::Key key{trees[i], id};
    const std::size_t at = nodes.find(key, i + static_cast<std::size_t>(id) - static_cast<std::size_t>(ids[i]));
    require(nodes.has(at, key), ErrorKind::invalid_model, "tree {} has no node {}", trees[i], id);
    return place[nodes.index(at)];
  };
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0) continue;
    Forest::Node& node = forest.nodes[static_cast<std::size_t>(place[i])];
    node.when_true = child(i, yes[i]);
    node.when_false = child(i, no[i]);
  }
}

// Reads TreeEnsembleClassifier and TreeEnsembleRegressor: nodes and leaves in one list, found by (tree, node).
Forest read_tree_lists(const AttributeReader& reader, const std::string& vote, std::int64_t targets) {
  Forest forest;
  forest.targets = targets;
  forest.post_transform = post_transform_named(reader.text("post_transform"));
  forest.base_values = real_list(reader, "base_values");
  const std::vector<std::int64_t> trees = reader.integers_or_empty("nodes_treeids"),
                                  ids = reader.integers_or_empty("nodes_nodeids");
  const std::vector<std::int64_t> features = reader.integers_or_empty("nodes_featureids");
  const std::vector<std::int64_t> yes = reader.integers_or_empty("nodes_truenodeids"),
                                  no = reader.integers_or_empty("nodes_falsenodeids");
  const std::vector<std::int64_t> missing = reader.integers_or_empty("nodes_missing_value_tracks_true");
  const std::vector<double> splits = real_list(reader, "nodes_values");
  const std::vector<std::string> none;
  const std::vector<std::string>& modes = reader.has_attribute("nodes_modes") ? reader.texts("nodes_modes") : none;
  const std::size_t count = trees.size();
  check_length("nodes_nodeids", ids.size(), count);
  check_length("nodes_featureids", features.size(), count);
  check_length("nodes_truenodeids", yes.size(), count);
  check_length("nodes_falsenodeids", no.size(), count);
  check_length("nodes_values", splits.size(), count);
  check_length("nodes_modes", modes.size(), count);
  if (!missing.empty()) check_length("nodes_missing_value_tracks_true", missing.size(), count);

  const std::vector<std::int64_t> vote_trees = reader.integers_or_empty(vote + "_treeids");
  const std::vector<std::int64_t> vote_nodes = reader.integers_or_empty(vote + "_nodeids");
  const std::vector<std::int64_t> vote_targets = reader.integers_or_empty(vote + "_ids");
  const std::vector<double> vote_weights = real_list(reader, vote + "_weights");
  check_length(vote + "_nodeids", vote_nodes.size(), vote_trees.size());
  check_length(vote + "_ids", vote_targets.size(), vote_trees.size());
  check_length(vote + "_weights", vote_weights.size(), vote_trees.size());
  const std::string vote_ids = vote + "_ids";
  for (const std::int64_t target : vote_targets) check_index(vote_ids, target, targets);

  const NodeOrder votes(vote_trees, vote_nodes), nodes(trees, ids);
  std::vector<std::int64_t> place(count);  // the number of each entry as a child
  std::size_t next_vote = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (modes[i] == "LEAF") {
      const std::size_t first = forest.votes.size();
      const NodeOrder::Key key{trees[i], ids[i]};
      for (next_vote = votes.find(key, next_vote); votes.has(next_vote, key); ++next_vote) {
        const std::size_t at = votes.index(next_vote);
        forest.votes.push_back({vote_targets[at], vote_weights[at]});
      }
      forest.leaves.push_back({first, forest.votes.size()});
      place[i] = -static_cast<std::int64_t>(forest.leaves.size());
    } else {
      forest.nodes.push_back({.comparison = comparison_named(modes[i]),
                              .missing_is_true = !missing.empty() && missing[i] != 0,
                              .feature = features[i],
                              .split = splits[i]});
      place[i] = static_cast<std::int64_t>(forest.nodes.size()) - 1;
    }
    // The first node of a tree is its root.
    if (i == 0 || trees[i] != trees[i - 1]) forest.roots.push_back(place[i]);
  }
  const std::size_t repeated = nodes.first_repeated();
  require(repeated == count, ErrorKind::invalid_model, "node {} of tree {} is given twice",
          repeated == count ? 0 : ids[repeated], repeated == count ? 0 : trees[repeated]);
  read_children(reader, nodes, place, forest);
  require(forest.base_values.empty() || forest.base_values.size() == static_cast<std::size_t>(targets) ||
              (vote == "class" && forest.base_values.size() == 1),
          ErrorKind::invalid_model, "base_values has {} entries, expected {}", forest.base_values.size(), targets);
  return forest;
}

ir::Dim rows_of(const InferContext& context, const Forest& forest) {
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return {};
  context.check(x->size() == 2 || x->size() == 1, "'X' has shape {}, expected [batch, features]", to_string(*x));
  context.check(!x->back().is_known() || forest.features <= x->back().value(), "a node looks at feature {} of {}",
                forest.features - 1, to_string(x->back()));
  return x->size() == 2 ? (*x)[0] : ir::Dim(1);
}

std::int64_t class_count(const AttributeReader& reader) {
  const bool numbers = reader.has_attribute("classlabels_int64s") && !reader.integers("classlabels_int64s").empty();
  const bool texts = reader.has_attribute("classlabels_strings") && !reader.texts("classlabels_strings").empty();
  require(numbers != texts, ErrorKind::invalid_model,
          "one of classlabels_int64s and classlabels_strings must be given");
  const std::size_t count =
      numbers ? reader.integers("classlabels_int64s").size() : reader.texts("classlabels_strings").size();
  require(count >= 2, ErrorKind::unsupported, "a classifier with a single class");
  return static_cast<std::int64_t>(count);
}

void infer_regression(InferContext& context) {
  const Forest forest = read_forest(context);
  const DType dtype = context.op().name == "ai.onnx.ml::TreeEnsemble" ? context.dtype(0) : DType::f32;
  context.set_output(0, dtype, {rows_of(context, forest), forest.targets});
}

void infer_classification(InferContext& context) {
  const Forest forest = read_forest(context);
  const ir::Dim rows = rows_of(context, forest);
  const bool texts = context.has_attribute("classlabels_strings") && !context.texts("classlabels_strings").empty();
  context.set_output(0, texts ? DType::string : DType::i64, {rows});
  context.set_output(1, DType::f32, {rows, forest.targets});
}

AttributeSpec needed(std::string_view name, AttributeKind kind) {
  return {name, kind, std::nullopt, true};
}

std::vector<AttributeSpec> tree_lists(std::initializer_list<AttributeSpec> more) {
  std::vector<AttributeSpec> specs{{"base_values", AttributeKind::reals},
                                   {"base_values_as_tensor", AttributeKind::tensor},
                                   {"nodes_falsenodeids", AttributeKind::integers},
                                   {"nodes_featureids", AttributeKind::integers},
                                   {"nodes_hitrates", AttributeKind::reals},
                                   {"nodes_hitrates_as_tensor", AttributeKind::tensor},
                                   {"nodes_missing_value_tracks_true", AttributeKind::integers},
                                   {"nodes_modes", AttributeKind::texts},
                                   {"nodes_nodeids", AttributeKind::integers},
                                   {"nodes_treeids", AttributeKind::integers},
                                   {"nodes_truenodeids", AttributeKind::integers},
                                   {"nodes_values", AttributeKind::reals},
                                   {"nodes_values_as_tensor", AttributeKind::tensor},
                                   {"post_transform", AttributeKind::text, ir::Attribute(std::string("NONE"))}};
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

}  // namespace

PostTransform post_transform_named(const std::string& name) {
  constexpr std::string_view names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  require(found != std::end(names), ErrorKind::invalid_model, "post_transform is '{}'", name);
  return static_cast<PostTransform>(found - std::begin(names));
}

Forest read_forest(const AttributeReader& reader) {
  const std::string_view name = reader.op().name;
  Forest forest;
  if (name == tree_ensemble.name) {
    forest = read_tree_ensemble(reader);
  } else if (name == tree_ensemble_classifier.name) {
    forest = read_tree_lists(reader, "class", class_count(reader));
  } else {
    const std::int64_t targets = reader.has_attribute("n_targets") ? reader.integer("n_targets") : 1;
    require(targets >= 1, ErrorKind::invalid_model, "n_targets is {}, expected at least 1", targets);
    forest = read_tree_lists(reader, "target", targets);
    constexpr std::string_view names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const auto found = std::find(std::begin(names), std::end(names), reader.text("aggregate_function"));
    require(found != std::end(names), ErrorKind::invalid_model, "aggregate_function is '{}'",
            reader.text("aggregate_function"));
    forest.aggregation = static_cast<Aggregation>(found - std::begin(names));
  }
  count_features(forest);
  check_trees(forest);
  return forest;
}

// Every row walks every tree to a leaf; the leaves' weights are aggregated by target and transformed.
const OpDef tree_ensemble{
    .name = "ai.onnx.ml::TreeEnsemble",
    .since = 5,
    .inputs = {{"X", {DType::f16, DType::f32, DType::f64}, "T"}},
    .outputs = {{"Y", {DType::f16, DType::f32, DType::f64}, "T"}},
    .attributes = {{"aggregate_function", AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   needed("leaf_targetids", AttributeKind::integers),
                   needed("leaf_weights", AttributeKind::tensor),
                   {"membership_values", AttributeKind::tensor},
                   {"n_targets", AttributeKind::integer},
                   needed("nodes_falseleafs", AttributeKind::integers),
                   needed("nodes_falsenodeids", AttributeKind::integers),
                   needed("nodes_featureids", AttributeKind::integers),
                   {"nodes_hitrates", AttributeKind::tensor},
                   {"nodes_missing_value_tracks_true", AttributeKind::integers},
                   needed("nodes_modes", AttributeKind::tensor),
                   needed("nodes_splits", AttributeKind::tensor),
                   needed("nodes_trueleafs", AttributeKind::integers),
                   needed("nodes_truenodeids", AttributeKind::integers),
                   {"post_transform", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   needed("tree_roots", AttributeKind::integers)},
    .infer = infer_regression,
};

// Version 5 of ai.onnx.ml replaced both by TreeEnsemble.
const OpDef tree_ensemble_classifier{
    .name = "ai.onnx.ml::TreeEnsembleClassifier",
    .since = 3,
    .inputs = {{"X", types::classical_numbers, "T1"}},
    .outputs = {{"Y", {DType::string, DType::i64}}, {"Z", {DType::f32}}},
    .attributes = tree_lists({{"class_ids", AttributeKind::integers},
                              {"class_nodeids", AttributeKind::integers},
                              {"class_treeids", AttributeKind::integers},
                              {"class_weights", AttributeKind::reals},
                              {"class_weights_as_tensor", AttributeKind::tensor},
                              {"classlabels_int64s", AttributeKind::integers},
                              {"classlabels_strings", AttributeKind::texts}}),
    .infer = infer_classification,
};

const OpDef tree_ensemble_regressor{
    .name = "ai.onnx.ml::TreeEnsembleRegressor",
    .since = 3,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = tree_lists({{"aggregate_function", AttributeKind::text, ir::Attribute(std::string("SUM"))},
                              {"n_targets", AttributeKind::integer},
                              {"target_ids", AttributeKind::integers},
                              {"target_nodeids", AttributeKind::integers},
                              {"target_treeids", AttributeKind::integers},
                              {"target_weights", AttributeKind::reals},
                              {"target_weights_as_tensor", AttributeKind::tensor}}),
    .infer = infer_regression,
};

}  // namespace tessera::ops
