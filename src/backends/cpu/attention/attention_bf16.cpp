// Attention of bfloat16 by the scheme of attention.cpp: products of bfloat16 with sums of float32, and softmax in
// float32, whose weights are rounded for the second product.
#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_plan.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/indirect_product_bf16.h"
#include "backends/cpu/products/tile_rows.h"
#include "base/checked.h"
#include "base/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;
using Product = IndirectProductBf16;

constexpr std::int64_t kBlockNumbers =
    64 * 1024;  // of packed keys and values together: well within the second-level cache
constexpr float kInfinity = std::numeric_limits<float>::infinity();
alignas(64) constexpr float kZeros[kMostBlockKeys] = {};

// What a thread needs for one block, one panel and the results of its queries.
struct Workspace {
  std::vector<std::uint16_t> values, weights;
  std::vector<float> keys;  // pairs of numbers
  std::vector<float> scores, sums, value;
  std::vector<SoftmaxState> states;

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

class Bf16Attention final : public Kernel {
 public:
  explicit Bf16Attention(const ops::NodeView& view)
      : multiplier_(multiplier_bf16(kProductRows)),
        rows_(&attention_rows()),
        plan_(view, multiplier_.tile_rows, kBlockNumbers),
        query_rows_(sizes().packed, sizes().query_heads, sizes().query_length, sizes().head_size),
        output_rows_(sizes().packed, sizes().query_heads, sizes().query_length, sizes().value_head_size),
        key_rows_(sizes().packed, sizes().kv_heads, sizes().new_length, sizes().head_size),
        value_rows_(sizes().packed, sizes().kv_heads, sizes().new_length, sizes().value_head_size) {}

  void run(KernelContext& context) const override {
    const auto numbers = [&](std::size_t input) {
      return static_cast<const std::uint16_t*>(context.input(input).raw());
    };
    const Call call{.query = numbers(kQuery),
                    .key = numbers(kKey),
                    .value = numbers(kValue),
                    .output = static_cast<std::uint16_t*>(context.output(0).mutable_raw()),
                    .masks = AttentionPlan::masks(context)};
    context.parallel_for(plan_.tasks(), plan_.grain(), [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t task = begin; task < end; ++task) run_task(call, plan_.task(call.masks, task));
    });
  }

 private:
  struct Call {
    const std::uint16_t *query, *key, *value;
    std::uint16_t* output;
    AttentionMasks masks;
  };
  struct Block {
    std::int64_t begin, count;
    const std::uint16_t* value;  // of its first key
    bool finite_values;
  };

  const ops::AttentionSizes& sizes() const { return plan_.sizes(); }

  void run_task(const Call& call, const AttentionTask& task) const {
    const std::int64_t queries = task.end - task.begin, value_size = sizes().value_head_size;
    Workspace& workspace = Workspace::of_this_thread();
    attention_room(workspace.scores, multiplier_.tile_rows * plan_.block_keys());
    attention_room(workspace.weights, multiplier_.tile_rows * plan_.block_keys());
    SoftmaxState* states = attention_room(workspace.states, plan_.chunk_queries());
    std::fill_n(states, queries, SoftmaxState{-kInfinity, 0});
    float* sums = attention_room(workspace.sums, plan_.chunk_queries() * value_size);
    std::fill_n(sums, queries * value_size, 0.0f);
    for (std::int64_t key = 0; key < task.keys; key += plan_.block_keys()) {
      const Block block = pack(call, task, key, workspace);
      for (std::int64_t i = task.begin; i < task.end; i += multiplier_.tile_rows) {
        base::yield_point();
        add_panel(call, task, block, i, std::min(multiplier_.tile_rows, task.end - i), workspace);
      }
    }
    std::uint16_t* output = call.output + output_rows_.at(task.batch, task.head) + task.begin * output_rows_.stride;
    for (std::int64_t i = 0; i < queries; ++i, sums += value_size, output += output_rows_.stride) {
      if (states[i].largest != -kInfinity) rows_->scale(sums, 1 / states[i].sum, value_size, sums);
      round_to_bf16_row(sums, output, value_size);
    }
  }

  Block pack(const Call& call, const AttentionTask& task, std::int64_t begin, Workspace& workspace) const {
    const std::int64_t pairs = sizes().head_size / 2, value_size = sizes().value_head_size,
                       head = sizes().kv_head(task.head);
    Block block{.begin = begin,
                .count = std::min(plan_.block_keys(), task.keys - begin),
                .value = call.value + value_rows_.at(task.batch, head) + begin * value_rows_.stride,
                .finite_values = true};
    float* keys = attention_room(workspace.keys, pairs * round_up(plan_.block_keys(), Product::kLanes));
    std::uint16_t* values =
        attention_room(workspace.values, round_up(value_size, Product::kLanes) * plan_.block_keys());
    const std::uint16_t* key = call.key + key_rows_.at(task.batch, head) + begin * key_rows_.stride;
    // A pair of a key's numbers is a word.
    pack_attention_panels(reinterpret_cast<const float*>(key), 1, key_rows_.stride / 2, pairs, block.count,
                          Product::kColumns, Product::kLanes, keys);
    for (std::int64_t column = 0; column < value_size; column += Product::kColumns) {
      const std::int64_t columns = std::min(Product::kColumns, value_size - column),
                         width = round_up(columns, Product::kLanes);
      for (std::int64_t i = 0; i < block.count; i += 2, values += 2 * width) {
        const std::uint16_t* first = block.value + i * value_rows_.stride + column;
        const std::uint16_t* second = i + 1 < block.count ? first + value_rows_.stride : nullptr;
        if (!rows_->join_pair(first, second, columns, width, values)) block.finite_values = false;
      }
    }
    return block;
  }

  // A panel of queries and one packed block.
  void add_panel(const Call& call, const AttentionTask& task, const Block& block, std::int64_t first,
                 std::int64_t count, Workspace& workspace) const {
    const std::int64_t size = sizes().head_size, value_size = sizes().value_head_size;
    const std::int64_t most = std::min(block.count, plan_.visible(task, first + count - 1) - block.begin),
                       even = round_up(most, 2);
    if (most <= 0) return;
    const std::uint16_t* left[kProductRows];
    for (std::int64_t j = 0; j < count; ++j)
      left[j] = call.query + query_rows_.at(task.batch, task.head) + (first + j) * query_rows_.stride;
    float* scores = workspace.scores.data();
    Product product{.rows = count,
                    .tile_rows = multiplier_.tile_rows,
                    .segments = 1,
                    .groups = size / 2,
                    .left = left,
                    .right = reinterpret_cast<const std::uint16_t*>(workspace.keys.data()),
                    .panel_groups = size / 2,
                    .columns = std::min(block.count, round_up(most, Product::kColumns)),
                    .bias = kZeros,
                    .c = scores,
                    .ldc = plan_.block_keys(),
                    .low = -kInfinity,
                    .high = kInfinity};
    multiplier_.multiply(product);
    float* sums = workspace.sums.data() + (first - task.begin) * value_size;
    for (std::int64_t j = 0; j < count; ++j) {
      float* row = scores + j * plan_.block_keys();
      const std::int64_t seen = std::clamp<std::int64_t>(plan_.visible(task, first + j) - block.begin, 0, most);
      if (seen > 0) {
        rows_->scale(row, sizes().scale, seen, row);
        const float factor = rows_->weigh(row, seen, plan_.rule(call.masks, task, block.begin, first + j),
                                          workspace.states[static_cast<std::size_t>(first + j - task.begin)]);
        if (factor != 1 && block.begin > 0)
          rows_->scale(sums + j * value_size, factor, value_size, sums + j * value_size);
      }
      std::uint16_t* weights = workspace.weights.data() + j * plan_.block_keys();
      std::fill(row + seen, row + most, 0.0f);
      round_to_bf16_row(row, weights, most);
      if (most < even) weights[most] = 0;
      left[j] = weights;
    }
    if (!block.finite_values) {
      float* value = attention_room(workspace.value, value_size);
      for (std::int64_t t = 0; t < most; ++t) {
        from_bf16_row(block.value + t * value_rows_.stride, value, value_size);
        for (std::int64_t j = 0; j < count; ++j)
          rows_->add_weighted(scores + j * plan_.block_keys() + t, value, 0, value_size, 1, sums + j * value_size);
      }
      return;
    }
    multiplier_.multiply({.rows = count,
                          .tile_rows = multiplier_.tile_rows,
                          .segments = 1,
                          .groups = even / 2,
                          .left = left,
                          .right = workspace.values.data(),
                          .panel_groups = ceil_divide(block.count, 2),
                          .columns = value_size,
                          .bias = kZeros,
                          .addend = sums,
                          .c = sums,
                          .ldc = value_size,
                          .low = -kInfinity,
                          .high = kInfinity});
  }

  MultiplierBf16 multiplier_;
  const AttentionRows* rows_;
  AttentionPlan plan_;
  AttentionHeads query_rows_, output_rows_, key_rows_, value_rows_;
};

}  // namespace

std::string reject_bf16_attention(const ops::NodeView& view) {
  for (const std::size_t i : {kQuery, kKey, kValue}) {
    if (view.input(i).dtype != DType::bf16) return "takes bf16";
  }
  if (view.has_input(kMask) && view.input(kMask).dtype != DType::f32 && view.input(kMask).dtype != DType::boolean)
    return "the mask is " + std::string(name_of(view.input(kMask).dtype));
  if (view.has_input(kPastKey)) return "has a past";
  if (view.wants_output(1) || view.wants_output(2) || view.wants_output(3)) return "more than the result is wanted";
  if (view.output(0).dtype == DType::undefined) return "nobody wants the result";
  const AttentionPlan plan(view, Product::kMostRows, kBlockNumbers);
  if (plan.sizes().head_size % 2 != 0) return "heads of odd size";
  if (plan.sizes().value_head_size > kMostBlockKeys) return "values of a large size";
  return plan.has_few_queries() ? "few queries" : "";
}

KernelPointer make_bf16_attention(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<Bf16Attention>(view);
}

}  // namespace tessera::backends::cpu
