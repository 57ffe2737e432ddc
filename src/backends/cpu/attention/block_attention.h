// Attention over blocks of keys that begin at multiples of kKeyBlock, with an online softmax, for kernels that keep
// keys and values in some cache. The keys and values of a block are converted to float32 once for the query heads that
// share them, and for up to kRunRows rows of neighbouring positions, so that what a row computes depends on its
// position alone.
//
// `Table` says where rows are: rows(), sequence(row), −1 for a row of none, position(row), and end(row), before which
// the positions that it sees lie. `Rows` are keys or values: size(), and load(table, sequence, head, begin, end,
// stride, to), which copies positions [begin, end).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/cache_blocks.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

// The rule of a node: its heads, the positions that a query sees (0: all before it), the factor and the soft cap (0:
// none) of scores, and a score for each head that has no value, or null.
struct BlockRule {
  std::int64_t heads, kv_heads, window;
  float scale, softcap;
  const float* sinks;
};

// Rows of a step that visit blocks of keys together: neighbouring positions of one sequence, or rows of none.
struct BlockRun {
  std::int64_t first, count;
};

// The memory of a thread, which it keeps between runs. Blocks have rows of whole vectors, padded with zeros.
struct BlockWorkspace {
  std::vector<float> rows, keys, values, queries, sums, scores;
  std::vector<SoftmaxState> states;
};

// The most rows of a run: they share a block while it is in the nearest cache.
inline constexpr std::int64_t kRunRows = 32;

// Computes the heads that share head `kv_head` of keys for a run of rows, which load each block of keys and values
// once. A row's results do not depend on the others of its run.
template <class Table, class Rows>
class BlockAttention {
 public:
  BlockAttention(const BlockRule& rule, const Table& table, const Rows& keys, const Rows& values,
                 std::int64_t most_rows, BlockWorkspace& work)
      : rule_(rule),
        table_(table),
        keys_(keys),
        values_(values),
        in_group_(rule.heads / rule.kv_heads),
        key_width_(base::round_up(keys.size(), kBlockAlignment)),
        value_width_(base::round_up(values.size(), kBlockAlignment)),
        work_(work) {
    const auto lines = static_cast<std::size_t>(most_rows * in_group_);
    const auto key_floats = static_cast<std::size_t>(kKeyBlock * key_width_),
               value_floats = static_cast<std::size_t>(kKeyBlock * value_width_);
    resize(work.rows, key_floats, key_width_ != keys.size());
    resize(work.keys, key_floats, false);
    resize(work.values, value_floats, value_width_ != values.size());
    work.queries.resize(std::max(work.queries.size(), lines * static_cast<std::size_t>(keys.size())));
    work.sums.resize(std::max(work.sums.size(), lines * static_cast<std::size_t>(value_width_)));
    work.scores.resize(static_cast<std::size_t>(kLines * kKeyBlock));
    work.states.resize(std::max(work.states.size(), lines));
  }

  // `query` and `y` are those of head 0 of row 0 of the step.
  void run(const BlockRun& run, std::int64_t kv_head, const float* query, float* y) {
    const std::int64_t sequence = table_.sequence(run.first), lines = run.count * in_group_;
    if (sequence >= 0) {
      std::fill_n(work_.sums.begin(), lines * value_width_, 0.0f);
      std::fill_n(work_.states.begin(), lines, SoftmaxState{-std::numeric_limits<float>::infinity(), 0});
      for (std::int64_t line = 0; line < lines; ++line)
        attention_rows().scale(query + head_of(run, kv_head, line) * keys_.size(), rule_.scale, keys_.size(),
                               work_.queries.data() + line * keys_.size());
      visit(run, kv_head, sequence);
    }
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t head = head_of(run, kv_head, line);
      float* const to = y + head * values_.size();
      if (sequence < 0) std::fill_n(to, values_.size(), 0.0f);
      else finish(line, head % rule_.heads, to);
    }
  }

 private:
  // Lines that meet a block one after the other, each product with all of them.
  static constexpr std::int64_t kLines = 6;

  // The positions that a line sees of a block, relative to its first.
  struct Seen {
    std::int64_t begin, end;
  };

  static void resize(std::vector<float>& block, std::size_t floats, bool is_padded) {
    if (is_padded) block.assign(floats, 0.0f);
    else if (block.size() < floats) block.resize(floats);
  }

  // The head, counted over all rows of the step, of a line of the run: its rows' heads one after the other.
  std::int64_t head_of(const BlockRun& run, std::int64_t kv_head, std::int64_t line) const {
    return (run.first + line / in_group_) * rule_.heads + kv_head * in_group_ + line % in_group_;
  }
  std::int64_t begin_of(std::int64_t row) const {
    return rule_.window > 0 ? std::max<std::int64_t>(0, table_.position(row) + 1 - rule_.window) : 0;
  }

  void visit(const BlockRun& run, std::int64_t kv_head, std::int64_t sequence) {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (std::int64_t row = run.first; row < run.first + run.count; ++row) {
      begin = std::min(begin, begin_of(row));
      end = std::max(end, table_.end(row));
    }
    while (begin < end) {
      const std::int64_t next = std::min(end, (begin / kKeyBlock + 1) * kKeyBlock);
      keys_.load(table_, sequence, kv_head, begin, next, key_width_, work_.rows.data());
      cache_blocks().transpose(work_.rows.data(), key_width_, work_.keys.data());
      values_.load(table_, sequence, kv_head, begin, next, value_width_, work_.values.data());
      // The rows that see the block follow each other, as their positions do.
      std::int64_t first = run.first, last = run.first + run.count;
      while (first < last && table_.end(first) <= begin) ++first;
      while (last > first && begin_of(last - 1) >= next) --last;
      const std::int64_t end_line = (last - run.first) * in_group_;
      for (std::int64_t line = (first - run.first) * in_group_; line < end_line; line += kLines)
        add_block(run, line, std::min(kLines, end_line - line), begin, next);
      begin = next;
    }
  }

  // Adds what `count` lines see of the loaded block of positions [begin, end). A line's terms follow each other in the
  // order of their positions, those that all lines have at once.
  void add_block(const BlockRun& run, std::int64_t line, std::int64_t count, std::int64_t begin, std::int64_t end) {
    float* const scores = work_.scores.data();
    cache_blocks().scores(work_.queries.data() + line * keys_.size(), keys_.size(), work_.keys.data(), keys_.size(),
                          count, scores);
    float* const sums = work_.sums.data() + line * value_width_;
    Seen seen[kLines], common{0, end - begin};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = run.first + (line + i) / in_group_;
      seen[i] = {std::max(begin, begin_of(row)) - begin, std::min(end, table_.end(row)) - begin};
      common = {std::max(common.begin, seen[i].begin), std::min(common.end, seen[i].end)};
      const float factor =
          attention_rows().weigh(scores + i * kKeyBlock + seen[i].begin, seen[i].end - seen[i].begin,
                                 {.softcap = rule_.softcap}, work_.states[static_cast<std::size_t>(line + i)]);
      attention_rows().scale(sums + i * value_width_, factor, value_width_, sums + i * value_width_);
    }
    common.end = std::max(common.begin, common.end);
    const auto add = [&](std::int64_t i, std::int64_t lines, Seen part) {
      if (part.begin < part.end)
        cache_blocks().add_weighted(scores + i * kKeyBlock, work_.values.data(), value_width_, part.begin, part.end,
                                    lines, sums + i * value_width_);
    };
    for (std::int64_t i = 0; i < count; ++i) add(i, 1, {seen[i].begin, std::min(seen[i].end, common.begin)});
    add(0, count, common);
    for (std::int64_t i = 0; i < count; ++i) add(i, 1, {std::max(seen[i].begin, common.end), seen[i].end});
  }

  void finish(std::int64_t line, std::int64_t head, float* y) const {
    const SoftmaxState& state = work_.states[static_cast<std::size_t>(line)];
    float sum = state.sum;
    if (rule_.sinks != nullptr) sum += std::exp(rule_.sinks[head] - state.largest);
    attention_rows().scale(work_.sums.data() + line * value_width_, 1 / sum, values_.size(), y);
  }

  const BlockRule& rule_;
  const Table& table_;
  const Rows &keys_, &values_;
  std::int64_t in_group_, key_width_, value_width_;
  BlockWorkspace& work_;
};

// Splits the step's rows where their sequence changes or their position does not follow, so that each position that a
// run visits is one that a row of it sees, and at the latest after kRunRows.
template <class Table>
std::vector<BlockRun> runs_of(const Table& table) {
  std::vector<BlockRun> runs;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::int64_t sequence = table.sequence(row);
    const bool follows = row > 0 && sequence == table.sequence(row - 1) &&
                         (sequence < 0 || table.position(row) == table.position(row - 1) + 1);
    if (!follows || runs.back().count == kRunRows) runs.push_back({row, 0});
    ++runs.back().count;
  }
  return runs;
}

}  // namespace tessera::backends::cpu
