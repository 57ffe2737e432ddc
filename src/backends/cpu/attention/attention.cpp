// Attention of float32 that never stores the scores of all queries and keys: queries in panels that stay in registers
// and the first-level cache, keys and values in blocks, softmax as the blocks come (T. Dao et al., "FlashAttention",
// arXiv:2205.14135). Heads are read and written where they lie, so packed operands need no transposes.
#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_plan.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/indirect_product.h"
#include "base/checked.h"
#include "base/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;

constexpr std::int64_t kBlockFloats =
    32 * 1024;  // of packed keys and values together: well within the second-level cache
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a thread needs for one block and one panel.
struct Workspace {
  std::vector<float> keys, values, queries, scores;
  std::vector<SoftmaxState> states;

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

class Attention final : public Kernel {
 public:
  explicit Attention(const ops::NodeView& view)
      : product_(&indirect_product_isa()),
        rows_(&attention_rows()),
        plan_(view, product_->rows, kBlockFloats),
        query_rows_(sizes().packed, sizes().query_heads, sizes().query_length, sizes().head_size),
        output_rows_(sizes().packed, sizes().query_heads, sizes().query_length, sizes().value_head_size),
        key_rows_(sizes().packed && !plan_.has_past(), sizes().kv_heads, sizes().total_length(), sizes().head_size),
        value_rows_(sizes().packed && !plan_.has_past(), sizes().kv_heads, sizes().total_length(),
                    sizes().value_head_size) {}

  // Keys and values of past and present where nobody wants them.
  std::int64_t scratch_bytes() const override {
    return plan_.has_past()
               ? 4 * base::checked_add(joined_floats(sizes().head_size), joined_floats(sizes().value_head_size))
               : 0;
  }

  void run(KernelContext& context) const override {
    auto* scratch = reinterpret_cast<float*>(context.scratch());
    Call call{.query = context.input(kQuery).data<float>(),
              .output = context.output(0).mutable_data<float>(),
              .masks = AttentionPlan::masks(context)};
    call.key = joined(context, kKey, kPastKey, 1, sizes().head_size, scratch);
    call.value = joined(context, kValue, kPastValue, 2, sizes().value_head_size,
                        plan_.has_past() ? scratch + joined_floats(sizes().head_size) : nullptr);
    context.parallel_for(plan_.tasks(), plan_.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_task(call, task);
    });
  }

 private:
  struct Call {
    const float* query;
    float* output;
    AttentionMasks masks;
    const float *key = nullptr, *value = nullptr;
  };
  struct Task : AttentionTask {
    const float *query, *key, *value;
    float* output;
  };
  struct Block {
    std::int64_t begin, count;
    bool finite_values;
  };

  const ops::AttentionSizes& sizes() const { return plan_.sizes(); }
  std::int64_t joined_floats(std::int64_t size) const {
    return round_up(
        base::checked_multiply(base::checked_multiply(sizes().batch * sizes().kv_heads, sizes().total_length()), size),
        16);
  }

  // Keys or values of past and present, [batch, kv heads, length, size]: in the output that wants them, else in
  // `scratch`. Without a past the operand itself, though an output may want a copy.
  const float* joined(KernelContext& context, std::size_t now, std::size_t past, std::size_t output, std::int64_t size,
                      float* scratch) const {
    const float* fresh = context.input(now).data<float>();
    const bool wanted = context.wants_output(output);
    if (!plan_.has_past() && !wanted) return fresh;
    float* to = wanted ? context.output(output).mutable_data<float>() : scratch;
    const float* before = plan_.has_past() ? context.input(past).data<float>() : nullptr;
    const AttentionHeads from(sizes().packed, sizes().kv_heads, sizes().new_length, size);
    const std::int64_t total = sizes().total_length(), past_floats = sizes().past_length * size;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, total * size));
    context.parallel_for(sizes().batch * sizes().kv_heads, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* head = to + i * total * size;
        if (past_floats > 0) head = std::copy_n(before + i * past_floats, past_floats, head);
        const float* row = fresh + from.at(i / sizes().kv_heads, i % sizes().kv_heads);
        for (std::int64_t t = 0; t < sizes().new_length; ++t, row += from.stride) head = std::copy_n(row, size, head);
      }
    });
    return plan_.has_past() ? to : fresh;
  }

  void run_task(const Call& call, std::int64_t index) const {
    Task task{plan_.task(call.masks, index), nullptr, nullptr, nullptr, nullptr};
    task.query = call.query + query_rows_.at(task.batch, task.head);
    task.key = call.key + key_rows_.at(task.batch, sizes().kv_head(task.head));
    task.value = call.value + value_rows_.at(task.batch, sizes().kv_head(task.head));
    task.output = call.output + output_rows_.at(task.batch, task.head);
    Workspace& workspace = Workspace::of_this_thread();
    const bool in_place = plan_.has_few_queries();
    attention_room(workspace.queries, (in_place ? 1 : product_->rows) * sizes().head_size);
    attention_room(workspace.scores, product_->rows * plan_.block_keys());
    SoftmaxState* states = attention_room(workspace.states, plan_.chunk_queries());
    std::fill_n(states, task.end - task.begin, SoftmaxState{-kInfinity, 0});
    for (std::int64_t i = task.begin; i < task.end; ++i)
      std::fill_n(task.output + i * output_rows_.stride, sizes().value_head_size, 0.0f);
    for (std::int64_t key = 0; key < task.keys; key += plan_.block_keys()) {
      Block block{.begin = key, .count = std::min(plan_.block_keys(), task.keys - key), .finite_values = false};
      if (!in_place) pack(task, block, workspace);
      const std::int64_t step = in_place ? 1 : product_->rows;
      for (std::int64_t i = task.begin; i < task.end; i += step) {
        base::yield_point();
        if (in_place) add_row(call, task, block, i, workspace);
        else add_panel(call, task, block, i, std::min(step, task.end - i), workspace);
      }
    }
    for (std::int64_t i = task.begin; i < task.end; ++i) {
      const SoftmaxState& state = states[i - task.begin];
      float* y = task.output + i * output_rows_.stride;
      if (state.largest != -kInfinity) rows_->scale(y, 1 / state.sum, sizes().value_head_size, y);
    }
  }

  void pack(const Task& task, Block& block, Workspace& workspace) const {
    const std::int64_t size = sizes().head_size, value_size = sizes().value_head_size,
                       padded = round_up(value_size, product_->lanes);
    float* keys = attention_room(workspace.keys, size * round_up(plan_.block_keys(), product_->lanes));
    float* values = attention_room(workspace.values, padded * plan_.block_keys());
    pack_attention_panels(task.key + block.begin * key_rows_.stride, 1, key_rows_.stride, size, block.count,
                          product_->columns, product_->lanes, keys);
    pack_attention_panels(task.value + block.begin * value_rows_.stride, value_rows_.stride, 1, block.count, value_size,
                          product_->columns, product_->lanes, values);
    block.finite_values = rows_->is_finite(values, padded * block.count);
  }

  // One query and one block, both where they lie.
  void add_row(const Call& call, const Task& task, const Block& block, std::int64_t i, Workspace& workspace) const {
    const std::int64_t count = std::min(block.count, plan_.visible(task, i) - block.begin);
    if (count <= 0) return;
    float *query = workspace.queries.data(), *scores = workspace.scores.data(),
          *y = task.output + i * output_rows_.stride;
    rows_->scale(task.query + i * query_rows_.stride, sizes().scale, sizes().head_size, query);
    rows_->scores(query, task.key + block.begin * key_rows_.stride, key_rows_.stride, sizes().head_size, count, scores);
    weigh(call, task, block, i, scores, count, workspace);
    rows_->add_weighted(scores, task.value + block.begin * value_rows_.stride, value_rows_.stride,
                        sizes().value_head_size, count, y);
  }

  // A panel of queries and one packed block.
  void add_panel(const Call& call, const Task& task, const Block& block, std::int64_t first, std::int64_t count,
                 Workspace& workspace) const {
    const std::int64_t size = sizes().head_size, value_size = sizes().value_head_size;
    const std::int64_t most = std::min(block.count, plan_.visible(task, first + count - 1) - block.begin);
    if (most <= 0) return;
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t j = 0; j < count; ++j) {
      float* query = workspace.queries.data() + j * size;
      rows_->scale(task.query + (first + j) * query_rows_.stride, sizes().scale, size, query);
      left[j] = query;
    }
    static constexpr float zeros[kMostBlockKeys] = {};
    float* scores = workspace.scores.data();
    // Whole panels, as packed.
    const std::int64_t columns = std::min(block.count, round_up(most, product_->columns));
    product_->multiply({.rows = count,
                        .segments = 1,
                        .length = size,
                        .left = left,
                        .right = workspace.keys.data(),
                        .columns = columns,
                        .bias = zeros,
                        .c = scores,
                        .ldc = plan_.block_keys()});
    for (std::int64_t j = 0; j < count; ++j) {
      float* row = scores + j * plan_.block_keys();
      const std::int64_t seen = std::clamp<std::int64_t>(plan_.visible(task, first + j) - block.begin, 0, most);
      if (seen > 0) weigh(call, task, block, first + j, row, seen, workspace);
      std::fill(row + seen, row + most, 0.0f);
      left[j] = row;
    }
    float* y = task.output + first * output_rows_.stride;
    if (!block.finite_values) {
      const float* value = task.value + block.begin * value_rows_.stride;
      for (std::int64_t j = 0; j < count; ++j)
        rows_->add_weighted(left[j], value, value_rows_.stride, value_size, most, y + j * output_rows_.stride);
      return;
    }
    for (std::int64_t column = 0; column < value_size; column += product_->columns) {
      product_->multiply({.rows = count,
                          .segments = 1,
                          .length = most,
                          .left = left,
                          .right = workspace.values.data() + column * block.count,
                          .columns = std::min(product_->columns, value_size - column),
                          .bias = zeros,
                          .addend = y + column,
                          .c = y + column,
                          .ldc = output_rows_.stride});
    }
  }

  // Scores of query i become weights, and what its output holds is brought to their measure.
  void weigh(const Call& call, const Task& task, const Block& block, std::int64_t i, float* scores, std::int64_t count,
             Workspace& workspace) const {
    const float factor = rows_->weigh(scores, count, plan_.rule(call.masks, task, block.begin, i),
                                      workspace.states[static_cast<std::size_t>(i - task.begin)]);
    float* y = task.output + i * output_rows_.stride;
    if (factor != 1 && block.begin > 0) rows_->scale(y, factor, sizes().value_head_size, y);
  }

  const IndirectProductIsa* product_;
  const AttentionRows* rows_;
  AttentionPlan plan_;
  AttentionHeads query_rows_, output_rows_, key_rows_, value_rows_;
};

}  // namespace

std::string reject_attention(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.input(kValue).dtype != DType::f32) return "the values are " + std::string(name_of(view.input(kValue).dtype));
  const DType mask = view.has_input(kMask) ? view.input(kMask).dtype : DType::f32;
  if (mask != DType::f32 && mask != DType::boolean) return "the mask is " + std::string(name_of(mask));
  return view.wants_output(3) ? "the scores are wanted" : "";
}

KernelPointer make_attention(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<Attention>(view);
}

}  // namespace tessera::backends::cpu
