// Attention of float32 by the loops of attention_driver.h. Sums are accumulated in the output. With few queries, keys
// and values are read in place, since packing would cost more than it saves.
#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_driver.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::round_up;

alignas(64) constexpr float kZerosF32[kMostBlockKeys] = {};

// A thread's buffers for one block and one panel.
struct WorkspaceF32 {
  std::vector<float> keys, values, queries;

  static WorkspaceF32& of_this_thread() {
    thread_local WorkspaceF32 workspace;
    return workspace;
  }
};

class ProductsF32 {
 public:
  using Element = float;
  using Task = AttentionHeadTask<float>;
  struct Scope {
    Scope() {}  // a product has nothing to release
  };
  // Elements of a block's packed keys and values together: well within the second-level cache.
  static constexpr std::int64_t kBlockElements = 32 * 1024;
  static constexpr bool kScalesScores = false;  // queries are scaled instead

  std::int64_t panel_rows() const { return product_->rows; }
  std::int64_t queries_together(const AttentionLayout& layout) const {
    return layout.plan.has_few_queries() ? 1 : product_->rows;
  }

  // Past and present keys and values joined, unless an output receives them.
  std::int64_t scratch_bytes(const AttentionLayout& layout) const {
    const ops::AttentionSizes& sizes = layout.sizes();
    return layout.plan.has_past() ? 4 * base::checked_add(joined_floats(layout, sizes.head_size),
                                                          joined_floats(layout, sizes.value_head_size))
                                  : 0;
  }

  AttentionOperands<float> operands(const AttentionLayout& layout, KernelContext& context) const {
    const ops::AttentionSizes& sizes = layout.sizes();
    auto* scratch = reinterpret_cast<float*>(context.scratch());
    AttentionOperands<float> call{.query = context.input(kQuery).data<float>(),
                                  .output = context.output(0).mutable_data<float>(),
                                  .masks = AttentionPlan::masks(context)};
    call.key = joined(layout, context, kKey, kPastKey, 1, sizes.head_size, scratch);
    call.value = joined(layout, context, kValue, kPastValue, 2, sizes.value_head_size,
                        layout.plan.has_past() ? scratch + joined_floats(layout, sizes.head_size) : nullptr);
    return call;
  }

  void begin(const AttentionLayout& layout, const Task& task) const {
    const std::int64_t head_size = layout.sizes().head_size;
    attention_room(WorkspaceF32::of_this_thread().queries, queries_together(layout) * head_size);
    for (std::int64_t i = task.begin; i < task.end; ++i)
      std::fill_n(sums(layout, task, i), layout.sizes().value_head_size, 0.0f);
  }

  void pack(const AttentionLayout& layout, const Task& task, AttentionBlock& block) const {
    if (layout.plan.has_few_queries()) return;
    WorkspaceF32& workspace = WorkspaceF32::of_this_thread();
    const std::int64_t size = layout.sizes().head_size, value_size = layout.sizes().value_head_size,
                       padded = round_up(value_size, product_->lanes), most = layout.plan.block_keys();
    float* keys = attention_room(workspace.keys, size * round_up(most, product_->lanes));
    float* values = attention_room(workspace.values, padded * most);
    pack_attention_panels(task.key + block.begin * layout.key.stride, 1, layout.key.stride, size, block.count,
                          product_->columns, product_->lanes, keys);
    pack_attention_panels(task.value + block.begin * layout.value.stride, layout.value.stride, 1, block.count,
                          value_size, product_->columns, product_->lanes, values);
    block.finite_values = layout.rows->is_finite(values, padded * block.count);
  }

  // Computes the scores of a panel's queries with the first `most` keys of a block, in rows of block_keys().
  void score(const AttentionLayout& layout, const Task& task, const AttentionBlock& block, std::int64_t first,
             std::int64_t count, std::int64_t most, float* scores) const {
    WorkspaceF32& workspace = WorkspaceF32::of_this_thread();
    const std::int64_t size = layout.sizes().head_size;
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t j = 0; j < count; ++j) {
      float* query = workspace.queries.data() + j * size;
      layout.rows->scale(task.query + (first + j) * layout.query.stride, layout.sizes().scale, size, query);
      left[j] = query;
    }
    if (layout.plan.has_few_queries()) {
      const float* keys = task.key + block.begin * layout.key.stride;
      return layout.rows->scores(left[0], keys, layout.key.stride, size, most, scores);
    }
    product_->multiply({.rows = count,
                        .segments = 1,
                        .length = size,
                        .left = left,
                        .right = workspace.keys.data(),
                        .columns = std::min(block.count, round_up(most, product_->columns)),  // whole panels, as packed
                        .bias = kZerosF32,
                        .c = scores,
                        .ldc = layout.plan.block_keys()});
  }

  void add_values(const AttentionLayout& layout, const Task& task, const AttentionBlock& block, std::int64_t first,
                  std::int64_t count, std::int64_t most, const float* weights) const {
    const std::int64_t value_size = layout.sizes().value_head_size, stride = layout.plan.block_keys();
    if (!block.finite_values) {
      const float* values = task.value + block.begin * layout.value.stride;
      for (std::int64_t j = 0; j < count; ++j)
        layout.rows->add_weighted(weights + j * stride, values, layout.value.stride, value_size, most,
                                  layout.plan.skips_zeros(), sums(layout, task, first + j));
      return;
    }
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t j = 0; j < count; ++j) left[j] = weights + j * stride;
    float* y = sums(layout, task, first);
    for (std::int64_t column = 0; column < value_size; column += product_->columns) {
      product_->multiply({.rows = count,
                          .segments = 1,
                          .length = most,
                          .left = left,
                          .right = WorkspaceF32::of_this_thread().values.data() + column * block.count,
                          .columns = std::min(product_->columns, value_size - column),
                          .bias = kZerosF32,
                          .addend = y + column,
                          .c = y + column,
                          .ldc = layout.output.stride});
    }
  }

  float* sums(const AttentionLayout& layout, const Task& task, std::int64_t i) const {
    return task.output + i * layout.output.stride;
  }
  void finish(const AttentionLayout&, const Task&, std::int64_t, const float*) const {}

 private:
  static std::int64_t joined_floats(const AttentionLayout& layout, std::int64_t size) {
    const ops::AttentionSizes& sizes = layout.sizes();
    const std::int64_t heads = sizes.batch * sizes.kv_heads;
    return round_up(base::checked_multiply(base::checked_multiply(heads, sizes.total_length()), size), 16);
  }

  // Returns the past and present keys or values, [batch, kv heads, length, size]: in the output for them, if it is
  // wanted, else in `scratch`. Without a past returns the operand itself, copied to the output if that is wanted.
  static const float* joined(const AttentionLayout& layout, KernelContext& context, std::size_t now, std::size_t past,
                             std::size_t output, std::int64_t size, float* scratch) {
    const ops::AttentionSizes& sizes = layout.sizes();
    const bool has_past = layout.plan.has_past(), wanted = context.wants_output(output);
    const float* fresh = context.input(now).data<float>();
    if (!has_past && !wanted) return fresh;
    float* to = wanted ? context.output(output).mutable_data<float>() : scratch;
    const float* before = has_past ? context.input(past).data<float>() : nullptr;
    const AttentionHeads from(sizes.packed, sizes.kv_heads, sizes.new_length, size);
    const std::int64_t total = sizes.total_length(), past_floats = sizes.past_length * size;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, total * size));
    context.parallel_for(sizes.batch * sizes.kv_heads, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* head = to + i * total * size;
        if (past_floats > 0) head = std::copy_n(before + i * past_floats, past_floats, head);
        const float* row = fresh + from.at(i / sizes.kv_heads, i % sizes.kv_heads);
        for (std::int64_t t = 0; t < sizes.new_length; ++t, row += from.stride) head = std::copy_n(row, size, head);
      }
    });
    return has_past ? to : fresh;
  }

  const IndirectProductIsa* product_ = &indirect_product_isa();
};

}  // namespace

std::string reject_attention_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.input(kValue).dtype != DType::f32) return "the values are " + std::string(name_of(view.input(kValue).dtype));
  const DType mask = view.has_input(kMask) ? view.input(kMask).dtype : DType::f32;
  if (mask != DType::f32 && mask != DType::boolean) return "the mask is " + std::string(name_of(mask));
  for (const std::size_t i : {kReplacement, kSecondMask}) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32)
      return "'" + std::string(view.op().inputs[i].name) + "' is " + std::string(name_of(view.input(i).dtype));
  }
  return view.wants_output(3) && !ops::gives_statistics(view.op()) ? "the scores are wanted" : "";
}

KernelPointer make_attention_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AttentionKernel<ProductsF32>>(view);
}

}  // namespace tessera::backends::cpu
