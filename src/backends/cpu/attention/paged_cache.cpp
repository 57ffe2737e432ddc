// CacheAttention: attention over blocks (block_attention.h) of keys and values in pages, and of this step's rows.
#include "ops/attention/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/block_attention.h"
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
  std::int64_t end(std::int64_t row) const { return position(row) + 1; }
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
    const BlockRule rule{context.integer("heads"),
                         context.integer("kv_heads"),
                         context.integer("window"),
                         context.real("scale"),
                         context.real("softcap"),
                         context.has_input(ops::kCacheSinks) ? context.input(ops::kCacheSinks).data<float>() : nullptr};
    const float* query = context.input(ops::kCacheQuery).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::vector<BlockRun> runs = runs_of(table);
    if (runs.empty()) return;
    const std::int64_t most_rows = std::ranges::max(runs, {}, &BlockRun::count).count;
    context.parallel_for(
        static_cast<std::int64_t>(runs.size()) * rule.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
          thread_local BlockWorkspace work;
          BlockAttention attention(rule, table, keys, values, most_rows, work);
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
