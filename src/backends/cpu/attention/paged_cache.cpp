// CacheAttention: an online softmax over blocks of keys that begin at multiples of kKeyBlock, so that what a row
// computes depends on its position alone. The keys and values of a block are converted to float32 once for the query
// heads that share them, and for up to 16 rows of neighbouring positions.
#include "ops/attention/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/kernels.h"
#include "base/error.h"
#include "base/numbers/checked.h"
#include "tessera/half.h"

namespace tessera::backends::cpu {
namespace {

// Positions whose keys are visited together, counted from position 0.
constexpr std::int64_t kKeyBlock = 64;

// Rounds a row of a head to int8. Returns its scale.
float round_to_bytes(std::span<const float> row, std::int8_t* to) {
  float largest = 0;
  for (const float x : row) largest = std::isnan(x) || std::abs(x) > largest ? std::abs(x) : largest;
  const float scale = largest / 127.0f;
  const bool has_codes = scale > 0 && std::isfinite(scale);
  for (std::size_t i = 0; i < row.size(); ++i)
    to[i] = has_codes ? static_cast<std::int8_t>(std::round(row[i] / scale)) : std::int8_t{0};
  return scale;
}

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
    std::vector<f16_t> halves(static_cast<std::size_t>(size_));
    std::vector<std::int8_t> bytes(static_cast<std::size_t>(size_));
    for (std::int64_t line = begin; line < end; ++line) {
      const std::span<const float> from(rows + line * size_, static_cast<std::size_t>(size_));
      const std::span<float> rounded(to + line * size_, static_cast<std::size_t>(size_));
      if (cache_.dtype() == DType::f32) {
        std::ranges::copy(from, rounded.begin());
      } else if (scales_ == nullptr) {
        to_f16(from, halves);
        to_float(std::span<const f16_t>(halves), rounded);
      } else {
        const float scale = round_to_bytes(from, bytes.data());
        for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = scale * static_cast<float>(bytes[i]);
      }
    }
  }

  // Copies positions [begin, end) of a head, one row of size() floats each.
  void load(const Places& table, std::int64_t sequence, std::int64_t head, std::int64_t begin, std::int64_t end,
            float* to) const {
    const AttentionRows& rows = attention_rows();
    for (std::int64_t position = begin; position < end; ++position, to += size_) {
      const std::int64_t row = table.row_at(sequence, position);
      if (row >= 0) {
        std::copy_n(rounded_ + (row * heads_ + head) * size_, size_, to);
        continue;
      }
      const ops::CachePlace place = table.place(sequence, position);
      const std::int64_t line = (place.page * heads_ + head) * cache_.shape()[2] + place.row;
      if (cache_.dtype() == DType::f32) std::copy_n(cache_.data<float>() + line * size_, size_, to);
      else if (scales_ == nullptr) rows.from_f16(&cache_.data<f16_t>()[line * size_].bits, size_, to);
      else rows.from_s8(cache_.data<std::int8_t>() + line * size_, scales_[line], size_, to);
    }
  }

 private:
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

// Computes the heads that share head `kv_head` of keys for a run of rows, which load each block of keys and values
// once. A row's results do not depend on the others of its run.
class RunAttention {
 public:
  RunAttention(const Rule& rule, const Places& table, const CachedRows& keys, const CachedRows& values)
      : rule_(rule), table_(table), keys_(keys), values_(values), in_group_(rule.heads / rule.kv_heads) {
    const auto block = static_cast<std::size_t>(kKeyBlock), lines = static_cast<std::size_t>(kRunRows * in_group_);
    key_block_.resize(block * static_cast<std::size_t>(keys.size()));
    value_block_.resize(block * static_cast<std::size_t>(values.size()));
    query_.resize(lines * static_cast<std::size_t>(keys.size()));
    sums_.resize(lines * static_cast<std::size_t>(values.size()));
    scores_.resize(block);
    states_.resize(lines);
  }

  // `query` and `y` are those of head 0 of row 0 of the step.
  void run(const RowRun& run, std::int64_t kv_head, const float* query, float* y) {
    const std::int64_t sequence = table_.sequence(run.first), lines = run.count * in_group_;
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    if (sequence >= 0) {
      std::fill(states_.begin(), states_.end(), SoftmaxState{-std::numeric_limits<float>::infinity(), 0});
      for (std::int64_t line = 0; line < lines; ++line) {
        const float* from = query + head_of(run, kv_head, line) * keys_.size();
        for (std::int64_t i = 0; i < keys_.size(); ++i)
          query_[static_cast<std::size_t>(line * keys_.size() + i)] = from[i] * rule_.scale;
      }
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
  static constexpr std::int64_t kRunRows = 16;

 private:
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
      keys_.load(table_, sequence, kv_head, begin, next, key_block_.data());
      values_.load(table_, sequence, kv_head, begin, next, value_block_.data());
      for (std::int64_t i = 0; i < run.count; ++i) {
        const std::int64_t row = run.first + i, from = std::max(begin, begin_of(row)),
                           to = std::min(next, table_.position(row) + 1);
        if (from >= to) continue;
        for (std::int64_t head = 0; head < in_group_; ++head) add_block(i * in_group_ + head, from - begin, to - from);
      }
      begin = next;
    }
  }

  // Adds `count` positions of the loaded block, beginning with its position `first`.
  void add_block(std::int64_t line, std::int64_t first, std::int64_t count) {
    const AttentionRows& rows = attention_rows();
    float* sums = sums_.data() + line * values_.size();
    rows.scores(query_.data() + line * keys_.size(), key_block_.data() + first * keys_.size(), keys_.size(),
                keys_.size(), count, scores_.data());
    const float factor =
        rows.weigh(scores_.data(), count, {.softcap = rule_.softcap}, states_[static_cast<std::size_t>(line)]);
    rows.scale(sums, factor, values_.size(), sums);
    rows.add_weighted(scores_.data(), value_block_.data() + first * values_.size(), values_.size(), values_.size(),
                      count, false, sums);
  }

  void finish(std::int64_t line, std::int64_t head, float* y) const {
    const SoftmaxState& state = states_[static_cast<std::size_t>(line)];
    float sum = state.sum;
    if (rule_.sinks != nullptr) sum += std::exp(rule_.sinks[head] - state.largest);
    attention_rows().scale(sums_.data() + line * values_.size(), 1 / sum, values_.size(), y);
  }

  const Rule& rule_;
  const Places& table_;
  const CachedRows &keys_, &values_;
  std::int64_t in_group_;
  std::vector<float> key_block_, value_block_, query_, sums_, scores_;
  std::vector<SoftmaxState> states_;
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
    context.parallel_for(
        static_cast<std::int64_t>(runs.size()) * rule.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
          RunAttention attention(rule, table, keys, values);
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
