// Attention of bfloat16 by the loops of attention_driver.h: bfloat16 products with float32 sums, and softmax in
// float32, whose weights are rounded to bfloat16 for the second product.
#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_driver.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/tile_rows.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;
using Product = IndirectProductBf16;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
alignas(64) constexpr float kZerosBf16[kMostBlockKeys] = {};

// A thread's buffers for one block, one panel and the results of its queries.
struct WorkspaceBf16 {
  std::vector<std::uint16_t> values, weights;
  std::vector<float> keys;  // pairs of bfloat16
  std::vector<float> sums, value;

  static WorkspaceBf16& of_this_thread() {
    thread_local WorkspaceBf16 workspace;
    return workspace;
  }
};

class ProductsBf16 {
 public:
  using Element = std::uint16_t;
  using Task = AttentionHeadTask<Element>;
  using Scope = TileScope;
  // Elements of a block's packed keys and values together: well within the second-level cache.
  static constexpr std::int64_t kBlockElements = 64 * 1024;
  static constexpr bool kScalesScores = true;

  std::int64_t panel_rows() const { return multiplier_.tile_rows; }
  std::int64_t queries_together(const AttentionLayout&) const { return multiplier_.tile_rows; }
  std::int64_t scratch_bytes(const AttentionLayout&) const { return 0; }

  AttentionOperands<Element> operands(const AttentionLayout&, KernelContext& context) const {
    const auto numbers = [&](std::size_t input) { return static_cast<const Element*>(context.input(input).raw()); };
    return {.query = numbers(kQuery),
            .key = numbers(kKey),
            .value = numbers(kValue),
            .output = static_cast<Element*>(context.output(0).mutable_raw()),
            .masks = AttentionPlan::masks(context)};
  }

  void begin(const AttentionLayout& layout, const Task& task) const {
    WorkspaceBf16& workspace = WorkspaceBf16::of_this_thread();
    const std::int64_t value_size = layout.sizes().value_head_size;
    attention_room(workspace.weights, multiplier_.tile_rows * layout.plan.block_keys());
    float* sums = attention_room(workspace.sums, layout.plan.chunk_queries() * value_size);
    std::fill_n(sums, (task.end - task.begin) * value_size, 0.0f);
  }

  void pack(const AttentionLayout& layout, const Task& task, AttentionBlock& block) const {
    WorkspaceBf16& workspace = WorkspaceBf16::of_this_thread();
    const std::int64_t pairs = layout.sizes().head_size / 2, value_size = layout.sizes().value_head_size,
                       most = layout.plan.block_keys();
    float* keys = attention_room(workspace.keys, pairs * round_up(most, Product::kLanes));
    Element* values = attention_room(workspace.values, round_up(value_size, Product::kLanes) * most);
    // A pair of neighbouring numbers of a key is one 32-bit word.
    const Element* key = task.key + block.begin * layout.key.stride;
    pack_attention_panels(reinterpret_cast<const float*>(key), 1, layout.key.stride / 2, pairs, block.count,
                          Product::kColumns, Product::kLanes, keys);
    const Element* value = task.value + block.begin * layout.value.stride;
    block.finite_values = true;
    for (std::int64_t column = 0; column < value_size; column += Product::kColumns) {
      const std::int64_t columns = std::min(Product::kColumns, value_size - column),
                         width = round_up(columns, Product::kLanes);
      for (std::int64_t i = 0; i < block.count; i += 2, values += 2 * width) {
        const Element* first = value + i * layout.value.stride + column;
        const Element* second = i + 1 < block.count ? first + layout.value.stride : nullptr;
        if (!layout.rows->join_pair(first, second, columns, width, values)) block.finite_values = false;
      }
    }
  }

  // Computes the scores of a panel's queries with the first `most` keys of a block, in rows of block_keys().
  void score(const AttentionLayout& layout, const Task& task, const AttentionBlock& block, std::int64_t first,
             std::int64_t count, std::int64_t most, float* scores) const {
    const std::int64_t size = layout.sizes().head_size;
    const Element* left[kProductRows];
    for (std::int64_t j = 0; j < count; ++j) left[j] = task.query + (first + j) * layout.query.stride;
    multiplier_.multiply({.rows = count,
                          .tile_rows = multiplier_.tile_rows,
                          .segments = 1,
                          .groups = size / 2,
                          .left = left,
                          .right = reinterpret_cast<const Element*>(WorkspaceBf16::of_this_thread().keys.data()),
                          .panel_groups = size / 2,
                          .columns = std::min(block.count, round_up(most, Product::kColumns)),
                          .bias = kZerosBf16,
                          .c = scores,
                          .ldc = layout.plan.block_keys(),
                          .low = -kInfinity,
                          .high = kInfinity});
  }

  void add_values(const AttentionLayout& layout, const Task& task, const AttentionBlock& block, std::int64_t first,
                  std::int64_t count, std::int64_t most, const float* weights) const {
    WorkspaceBf16& workspace = WorkspaceBf16::of_this_thread();
    const std::int64_t value_size = layout.sizes().value_head_size, stride = layout.plan.block_keys();
    float* y = sums(layout, task, first);
    if (!block.finite_values) {
      float* value = attention_room(workspace.value, value_size);
      for (std::int64_t t = 0; t < most; ++t) {
        from_bf16_row(task.value + (block.begin + t) * layout.value.stride, value, value_size);
        for (std::int64_t j = 0; j < count; ++j)
          layout.rows->add_weighted(weights + j * stride + t, value, 0, value_size, 1, layout.plan.skips_zeros(),
                                    y + j * value_size);
      }
      return;
    }
    const std::int64_t even = round_up(most, 2);
    const Element* left[kProductRows];
    for (std::int64_t j = 0; j < count; ++j) {
      Element* row = workspace.weights.data() + j * stride;
      round_to_bf16_row(weights + j * stride, row, most);
      if (most < even) row[most] = 0;
      left[j] = row;
    }
    multiplier_.multiply({.rows = count,
                          .tile_rows = multiplier_.tile_rows,
                          .segments = 1,
                          .groups = even / 2,
                          .left = left,
                          .right = workspace.values.data(),
                          .panel_groups = ceil_divide(block.count, 2),
                          .columns = value_size,
                          .bias = kZerosBf16,
                          .addend = y,
                          .c = y,
                          .ldc = value_size,
                          .low = -kInfinity,
                          .high = kInfinity});
  }

  float* sums(const AttentionLayout& layout, const Task& task, std::int64_t i) const {
    return WorkspaceBf16::of_this_thread().sums.data() + (i - task.begin) * layout.sizes().value_head_size;
  }
  void finish(const AttentionLayout& layout, const Task& task, std::int64_t i, const float* result) const {
    round_to_bf16_row(result, task.output + i * layout.output.stride, layout.sizes().value_head_size);
  }

 private:
  MultiplierBf16 multiplier_ = multiplier_bf16(kProductRows);
};

}  // namespace

std::string reject_attention_bf16(const ops::NodeView& view) {
  for (const std::size_t i : {kQuery, kKey, kValue}) {
    if (view.input(i).dtype != DType::bf16) return "takes bf16";
  }
  if (view.has_input(kMask) && view.input(kMask).dtype != DType::f32 && view.input(kMask).dtype != DType::boolean)
    return "the mask is " + std::string(name_of(view.input(kMask).dtype));
  for (const std::size_t i : {kReplacement, kSecondMask}) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32)
      return "'" + std::string(view.op().inputs[i].name) + "' is " + std::string(name_of(view.input(i).dtype));
  }
  if (view.has_input(kPastKey)) return "has a past";
  if (view.wants_output(1) || view.wants_output(2) || view.wants_output(3)) return "more than the result is wanted";
  if (view.output(0).dtype == DType::undefined) return "nobody wants the result";
  const AttentionPlan plan(view, Product::kMostRows, ProductsBf16::kBlockElements);
  if (plan.sizes().head_size % 2 != 0) return "heads of odd size";
  if (plan.sizes().value_head_size > kMostBlockKeys) return "values of a large size";
  return plan.has_few_queries() ? "few queries" : "";
}

KernelPointer make_attention_bf16(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AttentionKernel<ProductsBf16>>(view);
}

}  // namespace tessera::backends::cpu
