// The loops of attention without storing the scores of all queries and keys: queries in panels that stay in registers
// and the first-level cache, keys and values in blocks, softmax updated block by block (T. Dao et al.,
// "FlashAttention", arXiv:2205.14135). Heads are read and written in place, so packed operands need no transposes.
//
// `Products` multiplies operands of one element type (attention_f32.cpp, attention_bf16.cpp); a query's sums of
// weighted values are float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/attention/attention_plan.h"
#include "backends/host/random.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {

// The operands of a call.
template <typename Element>
struct AttentionOperands {
  const Element *query = nullptr, *key = nullptr, *value = nullptr;
  Element* output = nullptr;
  float* statistics = nullptr;  // see ops::kAttentionStatistics; may be null
  AttentionMasks masks;
  AttentionDropout dropout;
};

// Some queries of one head; pointers are to the beginning of the head.
template <typename Element>
struct AttentionHeadTask : AttentionTask {
  const Element *query, *key, *value;
  Element* output;
};

// Keys [begin, begin + count).
struct AttentionBlock {
  std::int64_t begin, count;
  bool finite_values = false;  // if false, values of weight 0 must not be read
};

// A thread's rows of scores, which become weights, and the state of each query's softmax.
struct AttentionScores {
  std::vector<float> scores;  // [query of the panel][key of the block]
  std::vector<SoftmaxState> states;
  std::vector<float> factors;  // on a row's weights

  static AttentionScores& of_this_thread() {
    thread_local AttentionScores scores;
    return scores;
  }
};

template <typename Products>
class AttentionKernel final : public Kernel {
 public:
  using Element = typename Products::Element;
  using Task = AttentionHeadTask<Element>;

  explicit AttentionKernel(const ops::NodeView& view)
      : layout_(view, products_.panel_rows(), Products::kBlockElements) {}

  std::int64_t scratch_bytes() const override { return products_.scratch_bytes(layout_); }

  void run(KernelContext& context) const override {
    AttentionOperands<Element> call = products_.operands(layout_, context);
    if (ops::gives_statistics(context.op()) && context.wants_output(ops::kAttentionStatistics))
      call.statistics = context.output(ops::kAttentionStatistics).template mutable_data<float>();
    if (ops::drops_weights(context.op())) {
      call.dropout = {static_cast<double>(context.real("dropout")), host::random_of(context)};
      if (context.wants_output(ops::kAttentionRandom))
        host::write_random(call.dropout.random, context.output(ops::kAttentionRandom));
    }
    context.parallel_for(layout_.plan.tasks(), layout_.plan.grain(), [&](std::int64_t begin, std::int64_t end) {
      const typename Products::Scope scope;
      for (std::int64_t task = begin; task < end; ++task) run_task(call, task);
    });
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  void run_task(const AttentionOperands<Element>& call, std::int64_t index) const {
    const AttentionPlan& plan = layout_.plan;
    Task task{plan.task(call.masks, index), nullptr, nullptr, nullptr, nullptr};
    const std::int64_t kv_head = layout_.sizes().kv_head(task.head);
    task.query = call.query + layout_.query.at(task.batch, task.head);
    task.key = call.key + layout_.key.at(task.batch, kv_head);
    task.value = call.value + layout_.value.at(task.batch, kv_head);
    task.output = call.output + layout_.output.at(task.batch, task.head);
    AttentionScores& scores = AttentionScores::of_this_thread();
    attention_room(scores.scores, products_.panel_rows() * plan.block_keys());
    SoftmaxState* states = attention_room(scores.states, plan.chunk_queries());
    std::fill_n(states, task.end - task.begin, SoftmaxState{-kInfinity, 0});
    products_.begin(layout_, task);
    const std::int64_t step = products_.queries_together(layout_);
    for (std::int64_t key = 0; key < task.keys; key += plan.block_keys()) {
      AttentionBlock block{.begin = key, .count = std::min(plan.block_keys(), task.keys - key)};
      products_.pack(layout_, task, block);
      for (std::int64_t i = task.begin; i < task.end; i += step) {
        base::yield_point();
        add_panel(call, task, block, i, std::min(step, task.end - i), scores);
      }
    }
    for (std::int64_t i = task.begin; i < task.end; ++i) {
      const SoftmaxState& state = states[i - task.begin];
      float* sums = products_.sums(layout_, task, i);
      end_sums(state, sums);
      products_.finish(layout_, task, i, sums);
      if (call.statistics == nullptr) continue;
      const ops::AttentionSizes& sizes = layout_.sizes();
      float* row = call.statistics + 2 * ((task.batch * sizes.query_heads + task.head) * sizes.query_length + i);
      row[0] = state.largest;
      row[1] = state.sum;
    }
  }

  // Divides a query's sums of weighted values by the sum of the weights.
  void end_sums(const SoftmaxState& state, float* sums) const {
    const std::int64_t size = layout_.sizes().value_head_size;
    const ops::NanRows nan_rows = layout_.plan.nan_rows();
    const bool is_empty = state.largest == -kInfinity;
    if (nan_rows == ops::NanRows::zeros && std::isnan(state.sum)) std::fill_n(sums, size, 0.0f);
    else if (!is_empty) layout_.rows->scale(sums, 1 / state.sum, size, sums);
    else if (nan_rows == ops::NanRows::propagate && layout_.sizes().total_length() > 0)
      std::fill_n(sums, size, std::numeric_limits<float>::quiet_NaN());
  }

  // Adds one packed block of keys and values to a panel of queries.
  void add_panel(const AttentionOperands<Element>& call, const Task& task, const AttentionBlock& block,
                 std::int64_t first, std::int64_t count, AttentionScores& scores) const {
    const AttentionPlan& plan = layout_.plan;
    const std::int64_t most = std::min(block.count, plan.visible(task, first + count - 1) - block.begin);
    if (most <= 0) return;
    products_.score(layout_, task, block, first, count, most, scores.scores.data());
    for (std::int64_t j = 0; j < count; ++j) {
      float* row = scores.scores.data() + j * plan.block_keys();
      const std::int64_t seen = std::clamp<std::int64_t>(plan.visible(task, first + j) - block.begin, 0, most);
      if (seen > 0) weigh(call.masks, task, block, first + j, row, seen, scores);
      if (seen > 0 && call.dropout.ratio > 0) drop(call.dropout, task, block, first + j, row, seen, scores);
      std::fill(row + seen, row + most, 0.0f);
    }
    products_.add_values(layout_, task, block, first, count, most, scores.scores.data());
  }

  // Applies dropout to the weights of query i: sets some to 0 and scales the others.
  void drop(const AttentionDropout& dropout, const Task& task, const AttentionBlock& block, std::int64_t i, float* row,
            std::int64_t count, AttentionScores& scores) const {
    const ops::AttentionSizes& sizes = layout_.sizes();
    float* factors = attention_room(scores.factors, layout_.plan.block_keys());
    dropout.factors(sizes, task.batch, task.head, i, block.begin, count, factors);
    for (std::int64_t t = 0; t < count; ++t) row[t] *= factors[t];
  }

  // Replaces the scores of query i by weights, and rescales its sums if the largest score has changed.
  void weigh(const AttentionMasks& masks, const Task& task, const AttentionBlock& block, std::int64_t i, float* row,
             std::int64_t count, AttentionScores& scores) const {
    if (Products::kScalesScores) layout_.rows->scale(row, layout_.sizes().scale, count, row);
    const float factor = layout_.rows->weigh(row, count, layout_.plan.rule(masks, task, block.begin, i),
                                             scores.states[static_cast<std::size_t>(i - task.begin)]);
    if (factor == 1 || block.begin == 0) return;
    const std::int64_t size = layout_.sizes().value_head_size;
    float* sums = products_.sums(layout_, task, i);
    if (factor != 0 || layout_.plan.skips_zeros()) return layout_.rows->scale(sums, factor, size, sums);
    for (std::int64_t e = 0; e < size; ++e) sums[e] *= factor;  // gives NaN for sums that are not finite
  }

  Products products_;
  AttentionLayout layout_;
};

}  // namespace tessera::backends::cpu
