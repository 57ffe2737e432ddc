// CacheAttention: an online softmax over blocks of keys that begin at multiples of kKeyBlock, so that what a row
// computes depends on its position alone. The keys and values of a block are converted to float32 once for the query
// heads that share them, and for up to 32 rows of neighbouring positions.
#include "ops/attention/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/cache_blocks.h"
#include "backends/cpu/attention/cached_row.h"
#include "backends/cpu/attention/kernels.h"
#include "base/error.h"
#include "base/numbers/checked.h"
#include "tessera/half.h"

namespace tessera::backends::cpu {
namespace {

// The places in the caches, or among the rows of the step, of the positions of the step's sequences.
class Places {
 public:
  // Throws Error(failed) where a row has no place in the caches.
  explicit Places(const KernelContext& context)
      : table_(context.input(ops::kCachePages), context.input(ops::kKeyCache).shape()),
        positions_(context.input(ops::kCachePositions).values<std::int64_t>()),
        sequence_(context.input(ops::kCacheSequence).values<std::int64_t>()),
        in_step_(static_cast<std::size_t>(table_.sequences())) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      if (sequence(row) < 0) continue;
      table_.place(sequence(row), position(row));
      NewRows& rows = in_step_[static_cast<std::size_t>(sequence(row))];
      rows.first = std::min(rows.first, position(row));
      rows.end = std::max(rows.end, position(row) + 1);
    }
    for (NewRows& rows : in_step_)
      if (rows.end > rows.first) rows.numbers.assign(static_cast<std::size_t>(rows.end - rows.first), -1);
    for (std::int64_t row = 0; row < rows(); ++row) {
      if (sequence(row) < 0) continue;
      NewRows& rows = in_step_[static_cast<std::size_t>(sequence(row))];
      rows.numbers[static_cast<std::size_t>(position(row) - rows.first)] = row;
    }
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(sequence_.size()); }
  std::int64_t sequence(std::int64_t row) const { return sequence_[static_cast<std::size_t>(row)]; }
  std::int64_t position(std::int64_t row) const { return positions_[static_cast<std::size_t>(row)]; }
  // The row of this step that is this position, or −1 when the position lies in the caches.
  std::int64_t row_at(std::int64_t sequence, std::int64_t position) const {
    const NewRows& rows = in_step_[static_cast<std::size_t>(sequence)];
    return position < rows.first || position >= rows.end
               ? -1
               : rows.numbers[static_cast<std::size_t>(position - rows.first)];
  }
  // All earlier positions of the sequence lie in the caches.
  std::int64_t first_in_step(std::int64_t sequence) const { return in_step_[static_cast<std::size_t>(sequence)].first; }
  ops::CachePlace place(std::int64_t sequence, std::int64_t position) const { return table_.place(sequence, position); }

 private:
  struct NewRows {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), end = 0;
    std::vector<std::int64_t> numbers;  // by position from `first` on
  };

  ops::PageTable table_;
  std::span<const std::int64_t> positions_, sequence_;
  std::vector<NewRows> in_step_;  // by sequence
};

// Keys or values: the cache, and this step's rows as the cache will keep them.
class CachedRows {
 public:
  CachedRows(const KernelContext& context, std::size_t cache, std::size_t scales)
      : cache_(context.input(cache)),
        scales_(context.has_input(scales) ? context.input(scales).data<float>() : nullptr),
        heads_(cache_.shape()[1]),
        size_(cache_.shape()[3]) {}

  std::int64_t size() const { return size_; }
  void set_rounded(const float* rows) { rounded_ = rows; }

  // Rounds heads [begin, end) of all rows, head by head, as the cache keeps them.
  void round(const float* rows, std::int64_t begin, std::int64_t end, float* to) const {
    std::vector<std::uint16_t> halves(static_cast<std::size_t>(size_));
    std::vector<std::int8_t> bytes(static_cast<std::size_t>(size_));
    for (std::int64_t line = begin; line < end; ++line) {
      const std::span<const float> from(rows + line * size_, static_cast<std::size_t>(size_));
      const std::span<float> rounded(to + line * size_, static_cast<std::size_t>(size_));
      if (cache_.dtype() == DType::f32) {
        std::ranges::copy(from, rounded.begin());
      } else if (scales_ == nullptr) {
        attention_rows().to_f16(from.data(), size_, halves.data());
        attention_rows().from_f16(halves.data(), size_, rounded.data());
      } else {
        const float scale = round_to_bytes(from, bytes.data());
        for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = scale * static_cast<float>(bytes[i]);
      }
    }
  }

  // Copies positions [begin, end) of a head to rows `stride` floats apart.
  void load(const Places& table, std::int64_t sequence, std::int64_t head, std::int64_t begin, std::int64_t end,
            std::int64_t stride, float* to) const {
    for (std::int64_t position = begin; position < end;) {
      std::int64_t count = 1;
      const std::int64_t row = table.row_at(sequence, position);
      if (row >= 0) {
        std::copy_n(rounded_ + (row * heads_ + head) * size_, size_, to);
      } else {
        const std::int64_t page_rows = cache_.shape()[2], first = table.first_in_step(sequence);
        const ops::CachePlace place = table.place(sequence, position);
        if (position < first) count = std::min(std::min(end, first) - position, page_rows - place.row);
        load_lines((place.page * heads_ + head) * page_rows + place.row, count, stride, to);
      }
      position += count, to += count * stride;
    }
  }

 private:
  // Neighbouring lines of the cache.
  void load_lines(std::int64_t line, std::int64_t count, std::int64_t stride, float* to) const {
    const AttentionRows& rows = attention_rows();
    if (scales_ == nullptr && cache_.dtype() == DType::f16 && stride == size_) {
      rows.from_f16(&cache_.data<f16_t>()[line * size_].bits, count * size_, to);
      return;
    }
    for (std::int64_t end = line + count; line < end; ++line, to += stride) {
      if (cache_.dtype() == DType::f32) std::copy_n(cache_.data<float>() + line * size_, size_, to);
      else if (scales_ == nullptr) rows.from_f16(&cache_.data<f16_t>()[line * size_].bits, size_, to);
      else rows.from_s8(cache_.data<std::int8_t>() + line * size_, scales_[line], size_, to);
    }
  }

  const Tensor& cache_;
  const float* scales_;
  std::int64_t heads_, size_;
  const float* rounded_ = nullptr;
};

struct Rule {
  std::int64_t heads, kv_heads, window;
  float scale, softcap;
  const float* sinks;
};

// Rows of a step that visit blocks of keys together: neighbouring positions of one sequence, or rows of none.
struct RowRun {
  std::int64_t first, count;
};

// The memory of a thread, which it keeps between runs. Blocks have rows of whole vectors, padded with zeros.
struct Workspace {
  std::vector<float> rows, keys, values, queries, sums, scores;
  std::vector<SoftmaxState> states;
};

// Computes the heads that share head `kv_head` of keys for a run of rows, which load each block of keys and values
// once. A row's results do not depend on the others of its run.
class RunAttention {
 public:
  RunAttention(const Rule& rule, const Places& table, const CachedRows& keys, const CachedRows& values,
               std::int64_t most_rows, Workspace& work)
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
  void run(const RowRun& run, std::int64_t kv_head, const float* query, float* y) {
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

  // The most rows of a run: they share a block while it is in the nearest cache.
  static constexpr std::int64_t kRunRows = 32;

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
  std::int64_t head_of(const RowRun& run, std::int64_t kv_head, std::int64_t line) const {
    return (run.first + line / in_group_) * rule_.heads + kv_head * in_group_ + line % in_group_;
  }
  std::int64_t begin_of(std::int64_t row) const {
    return rule_.window > 0 ? std::max<std::int64_t>(0, table_.position(row) + 1 - rule_.window) : 0;
  }

  void visit(const RowRun& run, std::int64_t kv_head, std::int64_t sequence) {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (std::int64_t row = run.first; row < run.first + run.count; ++row) {
      begin = std::min(begin, begin_of(row));
      end = std::max(end, table_.position(row) + 1);
    }
    while (begin < end) {
      const std::int64_t next = std::min(end, (begin / kKeyBlock + 1) * kKeyBlock);
      keys_.load(table_, sequence, kv_head, begin, next, key_width_, work_.rows.data());
      cache_blocks().transpose(work_.rows.data(), key_width_, work_.keys.data());
      values_.load(table_, sequence, kv_head, begin, next, value_width_, work_.values.data());
      // The rows that see the block follow each other, as their positions do.
      std::int64_t first = run.first, last = run.first + run.count;
      while (first < last && table_.position(first) < begin) ++first;
      while (last > first && begin_of(last - 1) >= next) --last;
      const std::int64_t end_line = (last - run.first) * in_group_;
      for (std::int64_t line = (first - run.first) * in_group_; line < end_line; line += kLines)
        add_block(run, line, std::min(kLines, end_line - line), begin, next);
      begin = next;
    }
  }

  // Adds what `count` lines see of the loaded block of positions [begin, end). A line's terms follow each other in the
  // order of their positions, those that all lines have at once.
  void add_block(const RowRun& run, std::int64_t line, std::int64_t count, std::int64_t begin, std::int64_t end) {
    float* const scores = work_.scores.data();
    cache_blocks().scores(work_.queries.data() + line * keys_.size(), keys_.size(), work_.keys.data(), keys_.size(),
                          count, scores);
    float* const sums = work_.sums.data() + line * value_width_;
    Seen seen[kLines], common{0, end - begin};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = run.first + (line + i) / in_group_;
      seen[i] = {std::max(begin, begin_of(row)) - begin, std::min(end, table_.position(row) + 1) - begin};
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

  const Rule& rule_;
  const Places& table_;
  const CachedRows &keys_, &values_;
  std::int64_t in_group_, key_width_, value_width_;
  Workspace& work_;
};

// Splits the step's rows where their sequence changes or their position does not follow, so that each position that a
// run visits is one that a row of it sees, and at the latest after RunAttention::kRunRows.
std::vector<RowRun> runs_of(const Places& table) {
  std::vector<RowRun> runs;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::int64_t sequence = table.sequence(row);
    const bool follows = row > 0 && sequence == table.sequence(row - 1) &&
                         (sequence < 0 || table.position(row) == table.position(row - 1) + 1);
    if (!follows || runs.back().count == RunAttention::kRunRows) runs.push_back({row, 0});
    ++runs.back().count;
  }
  return runs;
}

class CacheAttention final : public Kernel {
 public:
  explicit CacheAttention(const ops::NodeView& view)
      : keys_(view.input(ops::kCacheKey).elements()), values_(view.input(ops::kCacheValue).elements()) {}

  // The rows of this step as the caches keep them.
  std::int64_t scratch_bytes() const override {
    return base::checked_multiply(base::checked_add(keys_, values_), sizeof(float));
  }

  void run(KernelContext& context) const override {
    const Places table(context);
    CachedRows keys(context, ops::kKeyCache, ops::kKeyScales), values(context, ops::kValueCache, ops::kValueScales);
    auto* rounded = reinterpret_cast<float*>(context.scratch());
    round(context, keys, ops::kCacheKey, rounded, keys_);
    round(context, values, ops::kCacheValue, rounded + keys_, values_);
    const Rule rule{context.integer("heads"),
                    context.integer("kv_heads"),
                    context.integer("window"),
                    context.real("scale"),
                    context.real("softcap"),
                    context.has_input(ops::kCacheSinks) ? context.input(ops::kCacheSinks).data<float>() : nullptr};
    const float* query = context.input(ops::kCacheQuery).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::vector<RowRun> runs = runs_of(table);
    if (runs.empty()) return;
    const std::int64_t most_rows = std::ranges::max(runs, {}, &RowRun::count).count;
    context.parallel_for(
        static_cast<std::int64_t>(runs.size()) * rule.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
          thread_local Workspace work;
          RunAttention attention(rule, table, keys, values, most_rows, work);
          for (std::int64_t task = begin; task < end; ++task)
            attention.run(runs[static_cast<std::size_t>(task / rule.kv_heads)], task % rule.kv_heads, query, y);
        });
  }

 private:
  static void round(KernelContext& context, CachedRows& cached, std::size_t input, float* to, std::int64_t elements) {
    const float* rows = context.input(input).data<float>();
    const std::int64_t lines = elements / cached.size();
    context.parallel_for(lines, std::max<std::int64_t>(1, 8192 / cached.size()),
                         [&](std::int64_t begin, std::int64_t end) { cached.round(rows, begin, end, to); });
    cached.set_rounded(to);
  }

  std::int64_t keys_, values_;
};

}  // namespace

KernelPointer make_cache_attention(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<CacheAttention>(view);
}

}  // namespace tessera::backends::cpu
