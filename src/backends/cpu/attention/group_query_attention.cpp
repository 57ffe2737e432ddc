// GroupQueryAttention in float32 on a cache in one buffer: the past is copied to the present once, new keys and values
// are turned into their places in it, and blocks of the present are attended to as those of paged caches are.
#include "ops/attention/group_query_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/attention/block_attention.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/attention/rotary_functions.h"
#include "base/error.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using ops::GroupQueryInput;

struct GroupSizes {
  explicit GroupSizes(const ops::NodeView& view)
      : heads(view.integer("num_heads")),
        kv_heads(view.integer("kv_num_heads")),
        batch(view.input(ops::kGroupQuery).shape[0]),
        queries(view.input(ops::kGroupQuery).shape[1]),
        head_size(view.input(ops::kGroupQuery).shape[2] /
                  (view.has_input(ops::kGroupKey) ? heads : heads + 2 * kv_heads)),
        past(view.has_input(ops::kGroupPastKey) ? view.input(ops::kGroupPastKey).shape[2] : 0) {}

  std::int64_t rows() const { return batch * queries; }
  std::int64_t heads, kv_heads, batch, queries, head_size, past;
};

// The rows of the queries and their positions. A row beyond the end of a shorter prompt sees what its window holds of
// the prompt: a row whose window begins behind it is one of no sequence.
class PromptRows {
 public:
  PromptRows(const GroupSizes& sizes, const KernelContext& context, std::int64_t present)
      : sizes_(sizes), window_(window_of(context)) {
    const std::int32_t* lengths = context.input(ops::kGroupLengths).data<std::int32_t>();
    const std::int64_t total = context.input(ops::kGroupTotal).data<std::int32_t>()[0];
    is_prompt_ = total == sizes.queries;
    for (std::int64_t b = 0; b < sizes.batch; ++b) {
      lengths_.push_back(std::int64_t{lengths[b]} + 1);
      before_.push_back(is_prompt_ ? 0 : lengths_.back() - sizes.queries);
      require(lengths_.back() >= 0 && before_.back() >= 0 && before_.back() <= sizes.past &&
                  before_.back() + sizes.queries <= present,
              ErrorKind::failed,
              "row {} of the batch has {} positions with its {} new ones, which do not fit a past of {} and a present "
              "of {}",
              b, lengths_.back(), sizes.queries, sizes.past, present);
    }
  }

  bool is_prompt() const { return is_prompt_; }
  // Positions of a row of the batch before the new ones.
  std::int64_t before(std::int64_t batch) const { return before_[static_cast<std::size_t>(batch)]; }

  std::int64_t rows() const { return sizes_.rows(); }
  std::int64_t sequence(std::int64_t row) const {
    const std::int64_t first = window_ > 0 ? std::max<std::int64_t>(0, position(row) + 1 - window_) : 0;
    return first < length(row) ? row / sizes_.queries : -1;
  }
  std::int64_t position(std::int64_t row) const {
    return before_[static_cast<std::size_t>(row / sizes_.queries)] + row % sizes_.queries;
  }
  std::int64_t end(std::int64_t row) const { return std::min(position(row) + 1, length(row)); }

  static std::int64_t window_of(const KernelContext& context) {
    return std::max<std::int64_t>(0, context.integer("local_window_size"));
  }

 private:
  std::int64_t length(std::int64_t row) const { return lengths_[static_cast<std::size_t>(row / sizes_.queries)]; }

  const GroupSizes& sizes_;
  const std::int64_t window_;  // 0: none
  std::vector<std::int64_t> lengths_, before_;
  bool is_prompt_ = false;
};

// Keys or values in a buffer [batch, heads, length, size].
class BufferRows {
 public:
  explicit BufferRows(const Tensor& buffer) : buffer_(buffer) {}
  std::int64_t size() const { return buffer_.shape()[3]; }
  void load(const PromptRows&, std::int64_t batch, std::int64_t head, std::int64_t begin, std::int64_t end,
            std::int64_t stride, float* to) const {
    const float* from =
        buffer_.data<float>() + ((batch * buffer_.shape()[1] + head) * buffer_.shape()[2] + begin) * size();
    if (stride == size()) std::copy_n(from, (end - begin) * size(), to);
    else
      for (; begin < end; ++begin, from += size(), to += stride) std::copy_n(from, size(), to);
  }

 private:
  const Tensor& buffer_;
};

class GroupQueryAttention final : public Kernel {
 public:
  explicit GroupQueryAttention(const ops::NodeView& view) : sizes_(view) {}

  // The queries, normalised and turned.
  std::int64_t scratch_bytes() const override {
    return base::checked_multiply(base::checked_multiply(sizes_.rows(), sizes_.heads * sizes_.head_size),
                                  sizeof(float));
  }

  void run(KernelContext& context) const override {
    const Shape present{sizes_.batch, sizes_.kv_heads, present_length(context), sizes_.head_size};
    const PromptRows table(sizes_, context, present[2]);
    Tensor &keys = context.allocate_output(1, present), &values = context.allocate_output(2, present);
    keep_past(context, table, ops::kGroupPastKey, keys);
    keep_past(context, table, ops::kGroupPastValue, values);
    prepare_rows(context, table, keys, values);
    if (sizes_.rows() > 0) attend(context, table, keys, values);
  }

 private:
  std::int64_t present_length(const KernelContext& context) const {
    const std::int64_t total = context.input(ops::kGroupTotal).data<std::int32_t>()[0];
    require(total >= 0 && total <= sizes_.past + sizes_.queries, ErrorKind::failed,
            "total_sequence_length is {}, expected at most {}: a past of {} and {} new positions", total,
            sizes_.past + sizes_.queries, sizes_.past, sizes_.queries);
    return sizes_.past == 0 ? sizes_.queries : std::max(sizes_.past, total);
  }

  // The held positions of the past, and zeros behind the new ones.
  void keep_past(KernelContext& context, const PromptRows& table, std::size_t past, Tensor& present) const {
    const std::int64_t length = present.shape()[2], size = sizes_.head_size;
    const float* const from = sizes_.past > 0 ? context.input(past).data<float>() : nullptr;
    float* const to = present.mutable_data<float>();
    context.parallel_for(sizes_.batch * sizes_.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line) {
        const std::int64_t held = table.before(line / sizes_.kv_heads), behind = held + sizes_.queries;
        if (held > 0) std::copy_n(from + line * sizes_.past * size, held * size, to + line * length * size);
        std::fill_n(to + (line * length + behind) * size, (length - behind) * size, 0.0f);
      }
    });
  }

  struct Turning {
    void (*turn)(const float*, const float*, const float*, std::int64_t, float*) = nullptr;  // null: none
    const float *cosines = nullptr, *sines = nullptr;
    std::int64_t pairs = 0, rows = 0;
    const std::int64_t* ids = nullptr;
  };
  static Turning turning_of(const KernelContext& context) {
    Turning turning;
    if (context.integer("do_rotary") == 0) return turning;
    const RotaryFunctions& functions = active_rotary_functions();
    turning.turn = context.integer("rotary_interleaved") != 0 ? functions.neighbours : functions.halves;
    const Tensor& cosines = context.input(ops::kGroupCosines);
    turning.cosines = cosines.data<float>();
    turning.sines = context.input(ops::kGroupSines).data<float>();
    turning.rows = cosines.shape()[0];
    turning.pairs = cosines.shape()[1];
    if (context.has_input(ops::kGroupPositionIds))
      turning.ids = context.input(ops::kGroupPositionIds).data<std::int64_t>();
    return turning;
  }

  // For a prompt only the first given position counts; the others follow it.
  std::int64_t turned_position(const Turning& turning, const PromptRows& table, std::int64_t row) const {
    const std::int64_t i = row % sizes_.queries;
    const std::int64_t position = turning.ids == nullptr ? table.before(row / sizes_.queries) + i
                                  : table.is_prompt()    ? turning.ids[0] + i
                                                         : turning.ids[row];
    require(position >= 0 && position < turning.rows, ErrorKind::failed, "position {} is outside [0, {})", position,
            turning.rows);
    return position;
  }

  // Writes a head of a row: normalised by `norm`, unless it is null, and turned by its position.
  void prepare(const float* from, const float* norm, float epsilon, const Turning& turning, std::int64_t position,
               float* to) const {
    const std::int64_t size = sizes_.head_size;
    std::vector<float>& normed = work_row(size);
    if (norm != nullptr) {
      double sum = 0;
      for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(from[i]) * from[i];
      const auto factor = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(size) + epsilon));
      for (std::int64_t i = 0; i < size; ++i) normed[static_cast<std::size_t>(i)] = from[i] * factor * norm[i];
      from = normed.data();
    }
    if (turning.turn == nullptr) return void(std::copy_n(from, size, to));
    turning.turn(from, turning.cosines + position * turning.pairs, turning.sines + position * turning.pairs,
                 turning.pairs, to);
    std::copy(from + 2 * turning.pairs, from + size, to + 2 * turning.pairs);
  }
  static std::vector<float>& work_row(std::int64_t size) {
    thread_local std::vector<float> row;
    row.resize(std::max(row.size(), static_cast<std::size_t>(size)));
    return row;
  }

  void prepare_rows(KernelContext& context, const PromptRows& table, Tensor& keys, Tensor& values) const {
    const std::int64_t size = sizes_.head_size, width = sizes_.heads * size, kv_width = sizes_.kv_heads * size,
                       length = keys.shape()[2];
    const bool is_packed = !context.has_input(ops::kGroupKey);
    const float* const query = context.input(ops::kGroupQuery).data<float>();
    const float* const key = is_packed ? query + width : context.input(ops::kGroupKey).data<float>();
    const float* const value = is_packed ? key + kv_width : context.input(ops::kGroupValue).data<float>();
    const std::int64_t query_step = is_packed ? width + 2 * kv_width : width, step = is_packed ? query_step : kv_width;
    const auto norm_of = [&](std::size_t i) { return context.has_input(i) ? context.input(i).data<float>() : nullptr; };
    const float *const query_norm = norm_of(ops::kGroupQueryNorm), *const key_norm = norm_of(ops::kGroupKeyNorm);
    const auto epsilon = static_cast<float>(context.real("qk_norm_epsilon"));
    const Turning turning = turning_of(context);
    auto* const queries = reinterpret_cast<float*>(context.scratch());
    float *const to_keys = keys.mutable_data<float>(), *const to_values = values.mutable_data<float>();
    context.parallel_for(
        sizes_.rows(), std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(width, 1)),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t batch = row / sizes_.queries, place = table.before(batch) + row % sizes_.queries;
            const std::int64_t position = turning.turn != nullptr ? turned_position(turning, table, row) : 0;
            for (std::int64_t h = 0; h < sizes_.heads; ++h)
              prepare(query + row * query_step + h * size, query_norm, epsilon, turning, position,
                      queries + row * width + h * size);
            for (std::int64_t h = 0; h < sizes_.kv_heads; ++h) {
              const std::int64_t line = ((batch * sizes_.kv_heads + h) * length + place) * size;
              prepare(key + row * step + h * size, key_norm, epsilon, turning, position, to_keys + line);
              std::copy_n(value + row * step + h * size, size, to_values + line);
            }
          }
        });
  }

  void attend(KernelContext& context, const PromptRows& table, const Tensor& keys, const Tensor& values) const {
    const BufferRows key_rows(keys), value_rows(values);
    const float given = context.real("scale");
    const BlockRule rule{
        sizes_.heads,
        sizes_.kv_heads,
        PromptRows::window_of(context),
        given != 0 ? given : static_cast<float>(1 / std::sqrt(static_cast<double>(sizes_.head_size))),
        context.real("softcap"),
        context.has_input(ops::kGroupHeadSink) ? context.input(ops::kGroupHeadSink).data<float>() : nullptr};
    const auto* query = reinterpret_cast<const float*>(context.scratch());
    float* const y = context.output(0).mutable_data<float>();
    const std::vector<BlockRun> runs = runs_of(table);
    const std::int64_t most_rows = std::ranges::max(runs, {}, &BlockRun::count).count;
    context.parallel_for(
        static_cast<std::int64_t>(runs.size()) * rule.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
          thread_local BlockWorkspace work;
          BlockAttention attention(rule, table, key_rows, value_rows, most_rows, work);
          for (std::int64_t task = begin; task < end; ++task)
            attention.run(runs[static_cast<std::size_t>(task / rule.kv_heads)], task % rule.kv_heads, query, y);
        });
  }

  const GroupSizes sizes_;
};

}  // namespace

std::string reject_group_query_attention(const ops::NodeView& view) {
  for (const std::size_t i : {ops::kGroupQuery, ops::kGroupPastKey}) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32) return "it is not in float32";
  }
  if (view.integer("kv_cache_bit_width") != 0) return "the cache is quantised";
  if (view.has_input(ops::kGroupAttentionBias)) return "there is an attention bias";
  if (view.integer("smooth_softmax") == 1 && !view.has_input(ops::kGroupHeadSink)) return "the softmax is smoothed";
  if (view.integer("causal") == 0) return "queries see later positions";
  if (view.integer("sliding_window_cache") != 0) return "the cache slides";
  if (!view.wants_output(1) || !view.wants_output(2) || view.wants_output(3))
    return "other outputs than the result and the present are wanted";
  if (view.has_input(ops::kGroupKey) && view.input(ops::kGroupKey).shape[1] != view.input(ops::kGroupQuery).shape[1])
    return "there are no new keys";
  return "";
}

KernelPointer make_group_query_attention(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<GroupQueryAttention>(view);
}

}  // namespace tessera::backends::cpu
