#include "ops/tree_ensemble.h"

#include "backends/backend.h"
#include "backends/reference/numeric.h"
#include "backends/reference/scores.h"

namespace tessera::backends::reference {
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
  std::vector<bool> voted;  // whether any leaf spoke about the target
};

Scores score(const Forest& forest, const double* row) {
  const auto targets = static_cast<std::size_t>(forest.targets);
  Scores scores{std::vector<double>(targets, 0.0), std::vector<bool>(targets, false)};
  for (std::int64_t at : forest.roots) {
    while (at >= 0) {
      const Forest::Node& node = forest.nodes[static_cast<std::size_t>(at)];
      at = is_true(forest, node, row[node.feature]) ? node.when_true : node.when_false;
    }
    const Forest::Leaf& leaf = forest.leaves[static_cast<std::size_t>(-1 - at)];
    for (std::size_t i = leaf.first_vote; i < leaf.last_vote; ++i) {
      const auto target = static_cast<std::size_t>(forest.votes[i].target);
      double& value = scores.values[target];
      const double weight = forest.votes[i].weight;
      const bool first = !scores.voted[target];
      scores.voted[target] = true;
      if (forest.aggregation == ops::Aggregation::minimum)
        value = first ? weight : std::min(value, weight);
      else if (forest.aggregation == ops::Aggregation::maximum)
        value = first ? weight : std::max(value, weight);
      else
        value += weight;
    }
  }
  if (forest.aggregation == ops::Aggregation::average) {
    for (double& value : scores.values) value /= static_cast<double>(forest.roots.size());
  }
  return scores;
}

// Trees are read once and walked by every run.
class TreeEnsembleKernel final : public Kernel {
 public:
  explicit TreeEnsembleKernel(Forest forest) : forest_(std::move(forest)) {
    std::vector<bool> spoken(static_cast<std::size_t>(forest_.targets), false);
    for (const Forest::Vote& vote : forest_.votes) {
      spoken[static_cast<std::size_t>(vote.target)] = true;
      all_positive_ = all_positive_ && vote.weight >= 0;
    }
    const std::int64_t known = std::count(spoken.begin(), spoken.end(), true);
    if (forest_.targets == 2 && known == 1) only_class_ = spoken[0] ? 0 : 1;
  }

  void run(KernelContext& context) const override {
    const std::vector<double> x = read<double>(context.input(0));
    const Shape& shape = context.input(0).shape();
    const std::int64_t columns = shape.back(), rows = shape.size() == 2 ? shape[0] : 1;
    const bool classifier = context.op().name == ops::tree_ensemble_classifier.name;
    std::vector<double> y;
    std::vector<std::size_t> classes;
    for (std::int64_t row = 0; row < rows; ++row) {
      context.check_stop();
      Scores scores = score(forest_, x.data() + row * columns);
      if (classifier)
        classes.push_back(classify(scores));
      else
        finish(scores);
      y.insert(y.end(), scores.values.begin(), scores.values.end());
    }
    if (!classifier) return write(y, context.output(0));
    if (context.wants_output(0)) write_labels(context, classes);
    if (context.wants_output(1)) write(y, context.output(1));
  }

 private:
  void finish(Scores& scores) const {
    add_base(scores);
    transform_scores(scores.values, forest_.post_transform);
  }

  // The winning class; `scores` become what the operator returns. Where the leaves know only one class of two, a
  // threshold decides: 0.5 for weights that look like probabilities, else 0. Class 0 alone stands for the score of
  // class 1, and gets the rest (of 1 for untransformed probabilities, of 0 otherwise) itself.
  std::size_t classify(Scores& scores) const {
    add_base(scores);
    const double threshold = all_positive_ ? 0.5 : 0;
    std::size_t winner = 0;
    if (only_class_ < 0) {
      // Classes that no leaf spoke about stand back, unless there are no others.
      for (std::size_t i = 1; i < scores.values.size(); ++i) {
        const bool better = scores.voted[i] == scores.voted[winner] ? scores.values[i] > scores.values[winner]
                                                                    : static_cast<bool>(scores.voted[i]);
        if (better) winner = i;
      }
    } else {
      const double score = scores.values[static_cast<std::size_t>(only_class_)];
      winner = score > threshold ? 1 : 0;
      const bool plain =
          forest_.post_transform == ops::PostTransform::none || forest_.post_transform == ops::PostTransform::probit;
      if (only_class_ == 0) scores.values = {plain && all_positive_ ? 1 - score : -score, score};
    }
    transform_scores(scores.values, forest_.post_transform);
    return winner;
  }

  void add_base(Scores& scores) const {
    for (std::size_t i = 0; i < forest_.base_values.size() && i < scores.values.size(); ++i) {
      scores.values[i] += forest_.base_values[i];
    }
  }

  static void write_labels(KernelContext& context, const std::vector<std::size_t>& classes) {
    Tensor& labels = context.output(0);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (labels.dtype() == DType::string)
        labels.mutable_data<std::string>()[i] = context.texts("classlabels_strings")[classes[i]];
      else
        labels.mutable_data<std::int64_t>()[i] = context.integers("classlabels_int64s")[classes[i]];
    }
  }

  Forest forest_;
  bool all_positive_ = true;
  int only_class_ = -1;  // of two classes, the one that leaves vote for; -1: there is more than one
};

}  // namespace

std::unique_ptr<Kernel> tree_ensemble(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TreeEnsembleKernel>(ops::read_forest(view));
}

}  // namespace tessera::backends::reference
