#include "ops/tree_ensemble.h"

#include <algorithm>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/scores.h"

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

// Scores are summed tree by tree in the precision of the input: double for f64, else float32, as onnxruntime does on
// one thread. Ties depend on it: five weights of 0.1f are exactly 0.5 in float32, and more than 0.5 in double. A
// float32 sum or quotient computed in double and then rounded is the float32 one (53 bits are more than twice 24 and
// 2).
struct Precision {
  bool single = true;
  double operator()(double value) const { return single ? static_cast<double>(static_cast<float>(value)) : value; }
};

struct Scores {
  std::vector<double> values;
  std::vector<bool> voted;  // whether any leaf spoke about the target
};

Scores score(const Forest& forest, const double* row, Precision rounded) {
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
      const double weight = rounded(forest.votes[i].weight);
      const bool first = !scores.voted[target];
      scores.voted[target] = true;
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
    const Precision rounded{context.input(0).dtype() != DType::f64};
    std::vector<double> x = read<double>(context.input(0));
    std::ranges::transform(x, x.begin(), rounded);  // integers are compared as float32
    const Shape& shape = context.input(0).shape();
    const std::int64_t columns = shape.back(), rows = shape.size() == 2 ? shape[0] : 1;
    const bool classifier = context.op().name == ops::tree_ensemble_classifier.name;
    std::vector<double> y;
    std::vector<std::size_t> classes;
    for (std::int64_t row = 0; row < rows; ++row) {
      context.check_stop();
      Scores scores = score(forest_, x.data() + row * columns, rounded);
      if (classifier) classes.push_back(classify(scores, rounded));
      else finish(scores, rounded);
      y.insert(y.end(), scores.values.begin(), scores.values.end());
    }
    if (!classifier) return write(y, context.output(0));
    if (context.wants_output(0)) write_labels(context, classes);
    if (context.wants_output(1)) write(y, context.output(1));
  }

 private:
  void finish(Scores& scores, Precision rounded) const {
    add_base(scores, rounded);
    transform_scores(scores.values, forest_.post_transform);
  }

  // The winning class, of equal ones the first; `scores` become what the operator returns. Where the leaves know only
  // one class of two, a threshold decides: 0.5 for weights that look like probabilities, else 0.
  std::size_t classify(Scores& scores, Precision rounded) const {
    add_base(scores, rounded);
    if (only_class_ >= 0) return classify_by_threshold(scores, rounded);
    // Classes that no leaf spoke about stand back, unless there are no others.
    std::size_t winner = 0;
    for (std::size_t i = 1; i < scores.values.size(); ++i) {
      const bool better = scores.voted[i] == scores.voted[winner] ? scores.values[i] > scores.values[winner]
                                                                  : static_cast<bool>(scores.voted[i]);
      if (better) winner = i;
    }
    transform_scores(scores.values, forest_.post_transform);
    return winner;
  }

  // Class 0 alone stands for the score of class 1, and gets the rest (of 1 for probabilities, of 0 otherwise) itself.
  // The specification leaves the transform of such a pair open; as in onnxruntime, softmax leaves it as it is.
  std::size_t classify_by_threshold(Scores& scores, Precision rounded) const {
    using ops::PostTransform;
    const PostTransform transform = forest_.post_transform;
    const double score = scores.values[static_cast<std::size_t>(only_class_)];
    const std::size_t winner = score > (all_positive_ ? 0.5 : 0) ? 1 : 0;
    if (only_class_ == 0) {
      const bool of_one = all_positive_ && transform != PostTransform::logistic;
      scores.values = {of_one ? rounded(1 - score) : -score, score};
      if (transform == PostTransform::softmax || transform == PostTransform::softmax_zero) return winner;
    }
    transform_scores(scores.values, transform);
    return winner;
  }

  // A class with a base value takes part even where no leaf spoke about it.
  void add_base(Scores& scores, Precision rounded) const {
    for (std::size_t i = 0; i < forest_.base_values.size() && i < scores.values.size(); ++i) {
      scores.values[i] = rounded(scores.values[i] + rounded(forest_.base_values[i]));
      scores.voted[i] = true;
    }
  }

  static void write_labels(KernelContext& context, const std::vector<std::size_t>& classes) {
    Tensor& labels = context.output(0);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (labels.dtype() == DType::string)
        labels.mutable_data<std::string>()[i] = context.texts("classlabels_strings")[classes[i]];
      else labels.mutable_data<std::int64_t>()[i] = context.integers("classlabels_int64s")[classes[i]];
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
