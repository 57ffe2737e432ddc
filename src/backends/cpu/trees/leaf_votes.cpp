#include "backends/cpu/trees/leaf_votes.h"

#include <algorithm>
#include <span>

namespace tessera::backends::cpu {
namespace {

using ops::Aggregation;
using ops::Forest;

constexpr std::int64_t kMostDenseTargets = 16;

std::span<const Forest::Vote> votes_of(const Forest& forest, const PackedForest& packed, std::size_t leaf) {
  const Forest::Leaf& range = forest.leaves[packed.leaves[leaf]];
  return std::span(forest.votes).subspan(range.first_vote, range.last_vote - range.first_vote);
}

std::size_t last_leaf(const PackedForest& packed, std::size_t tree) {
  return tree + 1 < packed.trees.size() ? packed.trees[tree + 1].first_leaf : packed.leaves.size();
}

// The targets that leaves vote for, whatever the weights.
struct Voters {
  std::vector<std::uint8_t> spoken, certain;  // targets voted for by any leaf; by all leaves of a tree
};

Voters voters_of(const Forest& forest, const PackedForest& packed) {
  const auto targets = static_cast<std::size_t>(forest.targets);
  Voters voters{std::vector<std::uint8_t>(targets, 0), std::vector<std::uint8_t>(targets, 0)};
  std::vector<std::size_t> leaves(targets, 0);  // leaves of the tree that vote for the target
  std::vector<std::size_t> last(targets, 0);    // the last such leaf, from 1
  std::vector<std::size_t> touched;
  for (std::size_t tree = 0; tree < packed.trees.size(); ++tree) {
    const std::size_t first = packed.trees[tree].first_leaf, end = last_leaf(packed, tree);
    for (std::size_t leaf = first; leaf < end; ++leaf) {
      for (const Forest::Vote& vote : votes_of(forest, packed, leaf)) {
        const auto target = static_cast<std::size_t>(vote.target);
        if (last[target] == leaf + 1) continue;
        last[target] = leaf + 1;
        if (leaves[target]++ == 0) touched.push_back(target);
      }
    }
    for (const std::size_t target : touched) {
      voters.spoken[target] = 1;
      if (leaves[target] == end - first) voters.certain[target] = 1;
      leaves[target] = 0;
    }
    touched.clear();
  }
  return voters;
}

template <int line, typename Number>
void add_lines(const Number* weights, const std::int32_t* leaves, std::int64_t rows, Number* scores) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const Number* __restrict from = weights + static_cast<std::int64_t>(leaves[row]) * line;
    Number* __restrict to = scores + row * line;
#pragma GCC unroll 16
    for (int k = 0; k < line; ++k) to[k] += from[k];
  }
}

}  // namespace

template <typename Number>
LeafVotes<Number>::LeafVotes(const Forest& forest, const PackedForest& packed, bool voters_matter)
    : aggregation_(forest.aggregation), targets_(forest.targets) {
  for (const PackedForest::Tree& tree : packed.trees) first_leaf_.push_back(tree.first_leaf);
  const Voters voters = voters_of(forest, packed);
  const bool extreme = aggregation_ == Aggregation::minimum || aggregation_ == Aggregation::maximum;
  // A target with a base value counts as voted for in any case.
  bool varies = false;
  for (std::size_t target = forest.base_values.size(); target < voters.spoken.size(); ++target)
    varies = varies || voters.spoken[target] != voters.certain[target];
  notes_voters_ = extreme || (voters_matter && varies);
  voters_ = voters.spoken;
  if (!notes_voters_ && (take_single(forest, packed) || take_dense(forest, packed))) return;
  take_list(forest, packed);
}

template <typename Number>
bool LeafVotes<Number>::take_single(const Forest& forest, const PackedForest& packed) {
  std::vector<std::uint32_t> targets;
  std::vector<Number> weights;
  for (std::size_t tree = 0; tree < packed.trees.size(); ++tree) {
    std::int64_t target = -1;
    for (std::size_t leaf = packed.trees[tree].first_leaf; leaf < last_leaf(packed, tree); ++leaf) {
      const auto votes = votes_of(forest, packed, leaf);
      if (votes.size() > 1) return false;
      if (!votes.empty() && target < 0) target = votes[0].target;
      if (!votes.empty() && votes[0].target != target) return false;
      weights.push_back(votes.empty() ? Number{0} : static_cast<Number>(votes[0].weight));
    }
    targets.push_back(static_cast<std::uint32_t>(std::max<std::int64_t>(target, 0)));
  }
  kind_ = Kind::single;
  tree_target_ = std::move(targets);
  weights_ = std::move(weights);
  return true;
}

template <typename Number>
bool LeafVotes<Number>::take_dense(const Forest& forest, const PackedForest& packed) {
  if (targets_ > kMostDenseTargets) return false;
  line_ = targets_ <= 2 ? targets_ : (targets_ + 3) / 4 * 4;
  weights_.assign(packed.leaves.size() * static_cast<std::size_t>(line_), Number{0});
  for (std::size_t leaf = 0; leaf < packed.leaves.size(); ++leaf) {
    std::uint32_t seen = 0;
    for (const Forest::Vote& vote : votes_of(forest, packed, leaf)) {
      const std::uint32_t bit = 1u << vote.target;
      if ((seen & bit) != 0) return false;  // two votes for one target are summed separately
      seen |= bit;
      weights_[leaf * static_cast<std::size_t>(line_) + static_cast<std::size_t>(vote.target)] =
          static_cast<Number>(vote.weight);
    }
  }
  kind_ = Kind::dense;
  return true;
}

template <typename Number>
void LeafVotes<Number>::take_list(const Forest& forest, const PackedForest& packed) {
  weights_.clear();
  for (std::size_t leaf = 0; leaf < packed.leaves.size(); ++leaf) {
    first_vote_.push_back(votes_.size());
    for (const Forest::Vote& vote : votes_of(forest, packed, leaf)) {
      // Sums start at 0, so that a vote of 0 only marks the target as voted for.
      const auto weight = static_cast<Number>(vote.weight);
      if (notes_voters_ || weight != 0) votes_.push_back({static_cast<std::uint32_t>(vote.target), weight});
    }
  }
  first_vote_.push_back(votes_.size());
}

template <typename Number>
ScoreLayout LeafVotes<Number>::layout(std::int64_t rows) const {
  if (kind_ == Kind::single) return {targets_, 1, rows, rows * targets_, notes_voters_};
  const std::int64_t step = kind_ == Kind::dense ? line_ : targets_;
  return {step, step, 1, rows * step, notes_voters_};
}

template <typename Number>
void LeafVotes<Number>::add_rows(std::size_t tree, const std::int32_t* leaves, std::int64_t rows,
                                 const ScoreLayout& layout, Number* scores, std::uint8_t* voters) const {
  if (kind_ == Kind::list) return add_list(tree, leaves, rows, scores, voters);
  if (kind_ == Kind::single) {
    const Number* weights = weights_.data() + first_leaf_[tree];
    Number* to = scores + tree_target_[tree] * layout.target_step;
    for (std::int64_t row = 0; row < rows; ++row) to[row] += weights[leaves[row]];
    return;
  }
  const Number* weights = weights_.data() + static_cast<std::int64_t>(first_leaf_[tree]) * line_;
  if (line_ == 1) add_lines<1>(weights, leaves, rows, scores);
  else if (line_ == 2) add_lines<2>(weights, leaves, rows, scores);
  else if (line_ == 4) add_lines<4>(weights, leaves, rows, scores);
  else if (line_ == 8) add_lines<8>(weights, leaves, rows, scores);
  else if (line_ == 12) add_lines<12>(weights, leaves, rows, scores);
  else add_lines<16>(weights, leaves, rows, scores);
}

template <typename Number>
void LeafVotes<Number>::add_trees(std::size_t first, std::int64_t count, const std::int32_t* leaves,
                                  const ScoreLayout& layout, Number* scores, std::uint8_t* voters) const {
  if (kind_ != Kind::single) {
    for (std::int64_t i = 0; i < count; ++i)
      add_rows(first + static_cast<std::size_t>(i), leaves + i, 1, layout, scores, voters);
    return;
  }
  const Number* weights = weights_.data();
  const std::uint32_t *target = tree_target_.data() + first, *first_leaf = first_leaf_.data() + first;
  const auto weight = [&](std::int64_t i) { return weights[first_leaf[i] + static_cast<std::uint32_t>(leaves[i])]; };
  if (targets_ == 1) {
    Number score = *scores;
    for (std::int64_t i = 0; i < count; ++i) score += weight(i);
    *scores = score;
    return;
  }
  const std::int64_t step = layout.target_step;
  for (std::int64_t i = 0; i < count; ++i) scores[target[i] * step] += weight(i);
}

template <typename Number>
void LeafVotes<Number>::add_list(std::size_t tree, const std::int32_t* leaves, std::int64_t rows, Number* scores,
                                 std::uint8_t* voters) const {
  const std::size_t* first = first_vote_.data() + first_leaf_[tree];
  for (std::int64_t row = 0; row < rows; ++row) {
    Number* to = scores + row * targets_;
    std::uint8_t* notes = voters + row * targets_;
    const auto leaf = static_cast<std::size_t>(leaves[row]);
    for (std::size_t i = first[leaf]; i < first[leaf + 1]; ++i) {
      const Vote& vote = votes_[i];
      Number& score = to[vote.target];
      if (!notes_voters_) {
        score += vote.weight;
        continue;
      }
      const bool is_first = notes[vote.target] == 0;
      notes[vote.target] = 1;
      if (aggregation_ == Aggregation::minimum) score = is_first ? vote.weight : std::min(score, vote.weight);
      else if (aggregation_ == Aggregation::maximum) score = is_first ? vote.weight : std::max(score, vote.weight);
      else score += vote.weight;
    }
  }
}

template class LeafVotes<float>;
template class LeafVotes<double>;

}  // namespace tessera::backends::cpu
