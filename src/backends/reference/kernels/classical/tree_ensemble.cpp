#include "ops/classical/tree_ensemble.h"

#include <algorithm>

#include "backends/backend.h"
#include "backends/host/forest_scores.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using ops::Comparison;
using ops::Forest;

bool is_true(const Forest& forest, const Forest::Node& node, double x) {
  if (std::isnan(x)) return node.missing_is_true || node.comparison == Comparison::not_equal;
  switch (node.comparison) {
    case Comparison::less_equal:
      return x <= node.split;
    case Comparison::less:
      return x < node.split;
    case Comparison::greater_equal:
      return x >= node.split;
    case Comparison::greater:
      return x > node.split;
    case Comparison::equal:
      return x == node.split;
    case Comparison::not_equal:
      return x != node.split;
    case Comparison::member:
      break;
  }
  const auto first = forest.members.begin() + static_cast<std::ptrdiff_t>(node.first_member);
  const auto last = forest.members.begin() + static_cast<std::ptrdiff_t>(node.last_member);
  return std::find(first, last, x) != last;
}

struct Scores {
  std::vector<double> values;
  std::vector<std::uint8_t> voted;  // whether any leaf voted for the target
};

Scores score(const Forest& forest, const double* row, ScorePrecision rounded) {
  const auto targets = static_cast<std::size_t>(forest.targets);
  Scores scores{std::vector<double>(targets, 0.0), std::vector<std::uint8_t>(targets, 0)};
  for (std::int64_t at : forest.roots) {
    while (at >= 0) {
      const Forest::Node& node = forest.nodes[static_cast<std::size_t>(at)];
      at = is_true(forest, node, row[node.feature]) ? node.when_true : node.when_false;
    }
    const Forest::Leaf& leaf = forest.leaves[static_cast<std::size_t>(-1 - at)];
    for (std::size_t i = leaf.first_vote; i < leaf.last_vote; ++i) {
      const auto target = static_cast<std::size_t>(forest.votes[i].target);
      double& value = scores.values[target];
      const double weight = rounded(forest.votes[i].weight);
      const bool first = scores.voted[target] == 0;
      scores.voted[target] = 1;
      if (forest.aggregation == ops::Aggregation::minimum) value = first ? weight : std::min(value, weight);
      else if (forest.aggregation == ops::Aggregation::maximum) value = first ? weight : std::max(value, weight);
      else value = rounded(value + weight);
    }
  }
  if (forest.aggregation == ops::Aggregation::average) {
    for (double& value : scores.values) value = rounded(value / static_cast<double>(forest.roots.size()));
  }
  return scores;
}

// The trees are read once and used by every run.
class TreeEnsembleKernel final : public Kernel {
 public:
  TreeEnsembleKernel(Forest forest, ScorePrecision rounded)
      : forest_(std::move(forest)), rounded_(rounded), finisher_(forest_, rounded) {}

  void run(KernelContext& context) const override {
    std::vector<double> x = read<double>(context.input(0));
    std::ranges::transform(x, x.begin(), rounded_);  // integers are compared as float32
    const Shape& shape = context.input(0).shape();
    const std::int64_t columns = shape.back(), rows = shape.size() == 2 ? shape[0] : 1;
    const bool classifier = context.op().name == ops::tree_ensemble_classifier.name;
    std::vector<double> y;
    std::vector<std::size_t> classes;
    for (std::int64_t row = 0; row < rows; ++row) {
      context.check_stop();
      Scores scores = score(forest_, x.data() + row * columns, rounded_);
      if (classifier) classes.push_back(finisher_.classify(scores.values, scores.voted));
      else finisher_.finish(scores.values);
      y.insert(y.end(), scores.values.begin(), scores.values.end());
    }
    if (!classifier) return write(y, context.output(0));
    if (context.wants_output(0)) write_labels(context, classes);
    if (context.wants_output(1)) write(y, context.output(1));
  }

 private:
  static void write_labels(KernelContext& context, const std::vector<std::size_t>& classes) {
    Tensor& labels = context.output(0);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (labels.dtype() == DType::string)
        labels.mutable_data<std::string>()[i] = context.texts("classlabels_strings")[classes[i]];
      else labels.mutable_data<std::int64_t>()[i] = context.integers("classlabels_int64s")[classes[i]];
    }
  }

  Forest forest_;
  ScorePrecision rounded_;
  ForestScores finisher_;
};

}  // namespace

std::unique_ptr<Kernel> tree_ensemble(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TreeEnsembleKernel>(ops::read_forest(view),
                                              ScorePrecision{view.input(0).dtype != DType::f64});
}

}  // namespace tessera::backends::reference
