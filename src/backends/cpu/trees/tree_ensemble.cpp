// Decision forests: blocks of rows in parallel, each block through all trees, many rows or many trees at once.
#include "ops/classical/tree_ensemble.h"

#include <algorithm>
#include <unordered_map>

#include "backends/cpu/trees/forest_walk.h"
#include "backends/cpu/trees/kernels.h"
#include "backends/cpu/trees/leaf_votes.h"
#include "backends/host/forest_scores.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"

namespace tessera::backends::cpu {
namespace {

// Rows that go through a tree together: they and the tree should stay in the first-level cache.
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kBlockNumbers = 16384;  // in a block of more than kLeastBlockRows rows
constexpr std::int64_t kLeastBlockRows = 64;
// With fewer rows, each row walks many trees at once.
constexpr std::int64_t kFewRows = 24;
constexpr double kChunkSteps = 16384;  // steps from node to node per chunk

struct Rows {
  std::int64_t count = 0, columns = 0;
};

Rows rows_of(const Shape& shape) {
  return {shape.size() == 2 ? shape[0] : 1, shape.back()};
}

// Rounds f64 to float32 such that comparisons with the forest's float32 splits keep their results: x <= split if and
// only if the rounded x is.
float comparable(double value) {
  return -float_below_or_equal(-value);
}
float comparable(f16_t value) {
  return base::to_float(value);
}
float comparable(std::int32_t value) {
  return static_cast<float>(value);
}
float comparable(std::int64_t value) {
  return static_cast<float>(static_cast<double>(value));
}

template <typename From>
void make_comparable(const Tensor& x, std::int64_t first, std::int64_t last, float* to) {
  const From* from = x.data<From>();
  for (std::int64_t i = first; i < last; ++i) to[i] = comparable(from[i]);
}

void make_comparable(const Tensor& x, std::int64_t first, std::int64_t last, float* to) {
  if (x.dtype() == DType::f64) make_comparable<double>(x, first, last, to);
  else if (x.dtype() == DType::f16) make_comparable<f16_t>(x, first, last, to);
  else if (x.dtype() == DType::i32) make_comparable<std::int32_t>(x, first, last, to);
  else make_comparable<std::int64_t>(x, first, last, to);
}

void store_scores(const std::vector<double>& scores, std::int64_t row, Tensor& y) {
  const std::int64_t first = row * static_cast<std::int64_t>(scores.size());
  if (y.dtype() == DType::f32)
    std::ranges::transform(scores, y.mutable_data<float>() + first,
                           [](double score) { return static_cast<float>(score); });
  else if (y.dtype() == DType::f64) std::ranges::copy(scores, y.mutable_data<double>() + first);
  else
    std::ranges::transform(scores, y.mutable_data<f16_t>() + first, [](double score) { return base::to_f16(score); });
}

// Writes the labels of a classifier, if they are wanted.
class LabelWriter {
 public:
  explicit LabelWriter(KernelContext& context) {
    if (!context.wants_output(0)) return;
    labels_ = &context.output(0);
    if (labels_->dtype() == DType::string) texts_ = &context.texts("classlabels_strings");
    else numbers_ = &context.integers("classlabels_int64s");
  }
  void write(std::int64_t row, std::size_t winner) const {
    if (texts_ != nullptr) labels_->mutable_data<std::string>()[row] = (*texts_)[winner];
    else if (numbers_ != nullptr) labels_->mutable_data<std::int64_t>()[row] = (*numbers_)[winner];
  }

 private:
  Tensor* labels_ = nullptr;
  const std::vector<std::string>* texts_ = nullptr;
  const std::vector<std::int64_t>* numbers_ = nullptr;
};

template <typename Number>
class TreeEnsembleKernel final : public Kernel {
 public:
  TreeEnsembleKernel(const ops::NodeView& view, const ops::Forest& forest)
      : rows_(rows_of(view.input(0).shape)),
        classifies_(view.op().name == ops::tree_ensemble_classifier.name),
        converts_(view.input(0).dtype != DType::f32),
        averages_(forest.aggregation == ops::Aggregation::average),
        targets_(forest.targets),
        packed_(pack_forest(forest)),
        finisher_(forest, host::ScorePrecision{std::is_same_v<Number, float>}),
        votes_(forest, packed_, classifies_ && !finisher_.has_only_class()),
        layout_(votes_.layout(rows_.count)),
        block_rows_(std::clamp(kBlockNumbers / rows_.columns, kLeastBlockRows, kBlockRows)) {
    packed_.leaves = {};
    steps_ = static_cast<double>(packed_.trees.size()) * (packed_.levels + 1);
    score_bytes_ = base::round_up(base::checked_multiply(layout_.elements, sizeof(Number)), 64);
    voter_bytes_ = layout_.notes_voters ? base::round_up(base::checked_multiply(rows_.count, targets_), 64) : 0;
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t numbers = converts_ ? base::checked_multiply(rows_.count, rows_.columns) : 0;
    return base::checked_add(base::checked_add(score_bytes_, voter_bytes_),
                             base::checked_multiply(numbers, sizeof(float)));
  }

  void run(KernelContext& context) const override {
    std::byte* scratch = context.scratch();
    auto* scores = reinterpret_cast<Number*>(scratch);
    auto* voters = reinterpret_cast<std::uint8_t*>(scratch + score_bytes_);
    auto* converted = reinterpret_cast<float*>(scratch + score_bytes_ + voter_bytes_);
    const Tensor& x = context.input(0);
    const float* from = converts_ ? converted : x.data<float>();
    context.parallel_for(rows_.count, chunk_rows(context.resources().threads()),
                         [&](std::int64_t begin, std::int64_t end) {
                           if (converts_) make_comparable(x, begin * rows_.columns, end * rows_.columns, converted);
                           for (std::int64_t first = begin; first < end; first += block_rows_) {
                             context.check_stop();
                             const std::int64_t count = std::min(block_rows_, end - first);
                             sum_votes(from + first * rows_.columns, count, first, scores, voters);
                           }
                           finish(context, begin, end, scores, voters);
                         });
  }

 private:
  // Few rows are handed out one by one, others in vectors.
  std::int64_t chunk_rows(int threads) const {
    const auto worth = static_cast<std::int64_t>(kChunkSteps / std::max(steps_, 1.0)) + 1;
    if (rows_.count < 2 * kFewRows) return std::min(worth, block_rows_);
    const std::int64_t share = base::ceil_divide(rows_.count, std::int64_t{4} * threads);
    return std::min(base::round_up(std::max({worth, share, kLeastBlockRows / 2}), kLeastBlockRows / 2), block_rows_);
  }

  void sum_votes(const float* x, std::int64_t count, std::int64_t first, Number* scores, std::uint8_t* voters) const {
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t k = 0; k < layout_.line; ++k) scores[row * layout_.row_step + k * layout_.target_step] = 0;
    }
    scores += first * layout_.row_step;
    voters += layout_.notes_voters ? first * targets_ : 0;
    if (layout_.notes_voters) std::fill_n(voters, count * targets_, std::uint8_t{0});
    std::int32_t leaves[kBlockRows + kWalkPadding];
    const auto trees = static_cast<std::int64_t>(packed_.trees.size());
    if (count >= kFewRows) {
      for (std::size_t tree = 0; tree < packed_.trees.size(); ++tree) {
        walk_rows(packed_, tree, x, rows_.columns, count, leaves);
        votes_.add_rows(tree, leaves, count, layout_, scores, voters);
      }
      return;
    }
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t tree = 0; tree < trees; tree += kBlockRows) {
        const std::int64_t some = std::min(kBlockRows, trees - tree);
        walk_trees(packed_, static_cast<std::size_t>(tree), some, x + row * rows_.columns, leaves);
        votes_.add_trees(static_cast<std::size_t>(tree), some, leaves, layout_, scores + row * layout_.row_step,
                         voters + (layout_.notes_voters ? row * targets_ : 0));
      }
    }
  }

  void finish(KernelContext& context, std::int64_t begin, std::int64_t end, const Number* scores,
              const std::uint8_t* voters) const {
    const auto targets = static_cast<std::size_t>(targets_);
    const auto trees = static_cast<Number>(packed_.trees.size());
    std::vector<double> line(targets);
    const std::size_t output = classifies_ ? 1 : 0;
    Tensor* y = context.wants_output(output) ? &context.output(output) : nullptr;
    if (!classifies_) {
      for (std::int64_t row = begin; row < end; ++row) {
        read_line(scores, row, trees, line);
        finisher_.finish(line);
        if (y != nullptr) store_scores(line, row, *y);
      }
      return;
    }
    const LabelWriter labels(context);
    for (std::int64_t row = begin; row < end; ++row) {
      read_line(scores, row, trees, line);
      const std::span<const std::uint8_t> voted =
          layout_.notes_voters ? std::span(voters + row * targets_, targets) : std::span(votes_.constant_voters());
      labels.write(row, finisher_.classify(line, voted));
      if (y != nullptr) store_scores(line, row, *y);
    }
  }

  void read_line(const Number* scores, std::int64_t row, Number trees, std::vector<double>& line) const {
    for (std::size_t k = 0; k < line.size(); ++k) {
      const Number score = scores[row * layout_.row_step + static_cast<std::int64_t>(k) * layout_.target_step];
      line[k] = static_cast<double>(averages_ ? score / trees : score);
    }
  }

  Rows rows_;
  bool classifies_, converts_, averages_;
  std::int64_t targets_;
  PackedForest packed_;
  host::ForestScores finisher_;
  LeafVotes<Number> votes_;
  double steps_ = 0;  // per row, from node to node
  ScoreLayout layout_;
  std::int64_t block_rows_, score_bytes_ = 0, voter_bytes_ = 0;
};

// The kinds of comparisons in the nodes, found before the forest is read.
struct Comparisons {
  bool membership = false;
  bool only_no_greater = true;  // only x <= s and x > s, with float32 splits
  std::int64_t nodes_of_tree = 0, all_nodes = 0, trees = 0;
};

Comparisons comparisons_of_lists(const ops::NodeView& view) {
  Comparisons result;
  if (!view.has_attribute("nodes_modes")) return result;
  const std::vector<std::string>& modes = view.texts("nodes_modes");
  const std::vector<std::int64_t> trees = view.integers_or_empty("nodes_treeids");
  result.only_no_greater = !view.has_attribute("nodes_values_as_tensor");
  std::unordered_map<std::int64_t, std::int64_t> nodes;
  for (std::size_t i = 0; i < std::min(modes.size(), trees.size()); ++i) {
    result.trees += i == 0 || trees[i] != trees[i - 1] ? 1 : 0;
    if (modes[i] == "LEAF") continue;
    if (modes[i] != "BRANCH_LEQ" && modes[i] != "BRANCH_GT") result.only_no_greater = false;
    result.nodes_of_tree = std::max(result.nodes_of_tree, ++nodes[trees[i]]);
    ++result.all_nodes;
  }
  return result;
}

Comparisons comparisons_of_tensors(const ops::NodeView& view) {
  Comparisons result;
  const Tensor &modes = view.tensor("nodes_modes"), &splits = view.tensor("nodes_splits");
  for (const std::uint8_t mode : modes.values<std::uint8_t>()) {
    const auto comparison = static_cast<ops::Comparison>(mode);
    if (comparison == ops::Comparison::member) result.membership = true;
    if (comparison != ops::Comparison::less_equal && comparison != ops::Comparison::greater)
      result.only_no_greater = false;
  }
  if (splits.dtype() == DType::f64 && result.only_no_greater) {
    const auto is_float = [](double split) { return static_cast<double>(float_below_or_equal(split)) == split; };
    result.only_no_greater = std::ranges::all_of(splits.values<double>(), is_float);
  }
  result.nodes_of_tree = result.all_nodes = modes.elements();
  result.trees = static_cast<std::int64_t>(view.integers("tree_roots").size());
  return result;
}

}  // namespace

std::string reject_tree_ensemble(const ops::NodeView& view) {
  const Shape& shape = view.input(0).shape;
  if (element_count(shape) == 0) return "wants some elements";
  const Comparisons comparisons =
      view.op().name == ops::tree_ensemble.name ? comparisons_of_tensors(view) : comparisons_of_lists(view);
  if (view.op().name != ops::tree_ensemble_classifier.name && view.has_attribute("n_targets") &&
      view.integer("n_targets") > std::int64_t{1} << 20)
    return "takes at most 2^20 targets";
  if (comparisons.membership) return "takes no tests of membership";
  if (view.input(0).dtype == DType::f64 && !comparisons.only_no_greater)
    return "takes f64 where all nodes are x <= split or x > split of float32 splits";
  return packing_fault(comparisons.nodes_of_tree, comparisons.all_nodes, comparisons.trees, shape.back());
}

KernelPointer make_tree_ensemble(const ops::NodeView& view, WeightStore&) {
  const ops::Forest forest = ops::read_forest(view);
  if (view.input(0).dtype == DType::f64) return std::make_unique<TreeEnsembleKernel<double>>(view, forest);
  return std::make_unique<TreeEnsembleKernel<float>>(view, forest);
}

}  // namespace tessera::backends::cpu
