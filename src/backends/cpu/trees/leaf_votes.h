// The votes of a packed forest's leaves, and their sums per row.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/trees/packed_forest.h"

namespace tessera::backends::cpu {

// The layout of scores: target k of row r is at r * row_step + k * target_step. `line` is the number of scores per row,
// some of which may be unused. Optionally a byte per target and row records whether it had votes.
struct ScoreLayout {
  std::int64_t line = 0, row_step = 0, target_step = 0;
  std::int64_t elements = 0;
  bool notes_voters = false;
};

// Number: double for f64 inputs, else float; votes are summed in this type, tree by tree.
template <typename Number>
class LeafVotes {
 public:
  // `voters_matter`: whether the caller needs to know which targets had votes.
  LeafVotes(const ops::Forest& forest, const PackedForest& packed, bool voters_matter);

  ScoreLayout layout(std::int64_t rows) const;
  // The targets that have votes in every row (others have none in any row), if the layout does not record voters.
  const std::vector<std::uint8_t>& constant_voters() const { return voters_; }

  // Adds the votes of the leaves that `rows` rows reach in one tree to the scores at `scores`; `voters` records which
  // targets had votes.
  void add_rows(std::size_t tree, const std::int32_t* leaves, std::int64_t rows, const ScoreLayout& layout,
                Number* scores, std::uint8_t* voters) const;
  // Adds the votes of the leaves that one row reaches in `count` trees.
  void add_trees(std::size_t first, std::int64_t count, const std::int32_t* leaves, const ScoreLayout& layout,
                 Number* scores, std::uint8_t* voters) const;

 private:
  struct Vote {
    std::uint32_t target = 0;
    Number weight = 0;
  };
  // single: each leaf has at most one vote, and all votes of a tree are for one target. dense: each leaf has one weight
  // for every target. list: any other forest.
  enum class Kind { single, dense, list };

  bool take_single(const ops::Forest& forest, const PackedForest& packed);
  bool take_dense(const ops::Forest& forest, const PackedForest& packed);
  void take_list(const ops::Forest& forest, const PackedForest& packed);
  void add_list(std::size_t tree, const std::int32_t* leaves, std::int64_t rows, Number* scores,
                std::uint8_t* voters) const;

  ops::Aggregation aggregation_;
  std::int64_t targets_;
  Kind kind_ = Kind::list;
  bool notes_voters_ = false;
  std::vector<std::uint8_t> voters_;
  std::int64_t line_ = 0;                   // dense: numbers per leaf
  std::vector<Number> weights_;             // single and dense
  std::vector<std::uint32_t> tree_target_;  // single
  std::vector<std::uint32_t> first_leaf_;   // of each tree
  std::vector<std::size_t> first_vote_;     // list: one per leaf, and the end
  std::vector<Vote> votes_;
};

extern template class LeafVotes<float>;
extern template class LeafVotes<double>;

}  // namespace tessera::backends::cpu
