#include "backends/cpu/attention/attention_plan.h"

#include <algorithm>

#include "backends/cpu/products/gemm_f32_isa.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr std::int64_t kMostSizes =
    2048;  // of a head's key and value together; blocks of larger ones would have too few keys
constexpr std::int64_t kFewQueries = 2;
constexpr std::int64_t kMostChunkQueries = 512, kLeastChunkQueries = 128;
constexpr std::int64_t kWantedChunks = 24;

}  // namespace

AttentionMaskStrides::AttentionMaskStrides(const Shape& mask) : length(mask.back()) {
  std::int64_t stride = length;
  std::int64_t* const strides[] = {&query, &head, &batch};
  for (std::size_t i = 1; i < mask.size(); ++i) {
    const std::int64_t dim = mask[mask.size() - 1 - i];
    *strides[i - 1] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
}

AttentionMaskLayout::AttentionMaskLayout(const ops::NodeView& view, std::size_t mask_input,
                                         std::size_t replacement_input, std::size_t second_mask_input) {
  const auto strides = [&](std::size_t input) {
    return view.has_input(input) ? AttentionMaskStrides(view.input(input).shape) : AttentionMaskStrides();
  };
  mask = strides(mask_input);
  replacement = strides(replacement_input);
  second_mask = strides(second_mask_input);
}

ScoreRule AttentionMaskLayout::rule(const AttentionMasks& masks, std::int64_t batch, std::int64_t head,
                                    std::int64_t query, std::int64_t key) const {
  const auto row = [&](const auto* from, const AttentionMaskStrides& strides) {
    return from != nullptr ? from + strides.at(batch, head, query) + key : nullptr;
  };
  return {.mask = row(masks.mask, mask),
          .allowed = row(masks.allowed, mask),
          .replacement = row(masks.replacement, replacement),
          .second_mask = row(masks.second_mask, second_mask)};
}

AttentionPlan::AttentionPlan(const ops::NodeView& view, std::int64_t panel_rows, std::int64_t block_elements)
    : has_past_(view.has_input(kPastKey)),
      sizes_(ops::attention_sizes(view, view.input(kQuery).shape, view.input(kKey).shape, view.input(kValue).shape,
                                  has_past_ ? &view.input(kPastKey).shape : nullptr)),
      causal_(view.integer("is_causal") != 0),
      nan_rows_(ops::nan_rows_of(view)),
      softcap_(view.real("softcap")) {
  block_keys_ =
      std::clamp(block_elements / std::max<std::int64_t>(sizes_.head_size + sizes_.value_head_size, 1) / 32 * 32,
                 std::int64_t{32}, kMostBlockKeys);
  const std::int64_t heads = sizes_.batch * sizes_.query_heads, queries = sizes_.query_length;
  if (heads == 0 || queries == 0) return;
  const std::int64_t wanted = ceil_divide(kWantedChunks, heads),
                     chunks =
                         std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, queries / kLeastChunkQueries));
  chunk_queries_ = std::min(kMostChunkQueries, round_up(ceil_divide(queries, chunks), panel_rows));
  chunks_ = ceil_divide(queries, chunk_queries_);
  tasks_ = heads * chunks_;
  masks_ = AttentionMaskLayout(view, kMask, kReplacement, kSecondMask);
}

bool AttentionPlan::has_few_queries() const {
  return sizes_.query_length <= kFewQueries || sizes_.head_size + sizes_.value_head_size > kMostSizes;
}

std::int64_t AttentionPlan::grain() const {
  // Tasks with few operations are handed out several at a time.
  const double operations = static_cast<double>(std::max<std::int64_t>(1, chunk_queries_)) *
                            static_cast<double>(sizes_.total_length() * (sizes_.head_size + sizes_.value_head_size));
  return static_cast<std::int64_t>(std::clamp(2e5 / std::max(operations, 1.0), 1.0, 1024.0));
}

AttentionMasks AttentionPlan::masks(const KernelContext& context) {
  AttentionMasks masks;
  if (context.has_input(kMask)) {
    const Tensor& mask = context.input(kMask);
    if (mask.dtype() == DType::boolean) masks.allowed = mask.data<bool>();
    else masks.mask = mask.data<float>();
  }
  if (context.has_input(kReplacement)) masks.replacement = context.input(kReplacement).data<float>();
  if (context.has_input(kSecondMask)) masks.second_mask = context.input(kSecondMask).data<float>();
  if (context.has_input(kValidKeys)) masks.valid_keys = context.input(kValidKeys).data<std::int64_t>();
  return masks;
}

AttentionTask AttentionPlan::task(const AttentionMasks& masks, std::int64_t index) const {
  const std::int64_t heads = sizes_.batch * sizes_.query_heads;
  // Starts with the last queries: with causal attention they have the most keys.
  const std::int64_t chunk = chunks_ - 1 - index / heads, batch = index % heads / sizes_.query_heads,
                     head = index % sizes_.query_heads;
  AttentionTask task{.batch = batch,
                     .head = head,
                     .begin = chunk * chunk_queries_,
                     .end = std::min(sizes_.query_length, (chunk + 1) * chunk_queries_),
                     .keys = sizes_.total_length()};
  if (masks.mask != nullptr || masks.allowed != nullptr) task.keys = std::min(task.keys, masks_.mask.length);
  if (masks.valid_keys != nullptr) task.keys = std::clamp<std::int64_t>(masks.valid_keys[batch], 0, task.keys);
  task.keys = visible(task, task.end - 1);
  return task;
}

std::int64_t AttentionPlan::visible(const AttentionTask& task, std::int64_t i) const {
  return causal_ ? std::clamp<std::int64_t>(sizes_.past_length + i + 1, 0, task.keys) : task.keys;
}

ScoreRule AttentionPlan::rule(const AttentionMasks& masks, const AttentionTask& task, std::int64_t key,
                              std::int64_t i) const {
  ScoreRule rule = masks_.rule(masks, task.batch, task.head, i, key);
  rule.softcap = softcap_;
  return rule;
}

AttentionLayout::AttentionLayout(const ops::NodeView& view, std::int64_t panel_rows, std::int64_t block_elements)
    : plan(view, panel_rows, block_elements),
      rows(&attention_rows()),
      query(sizes().packed, sizes().query_heads, sizes().query_length, sizes().head_size),
      output(sizes().packed, sizes().query_heads, sizes().query_length, sizes().value_head_size),
      key(sizes().packed && !plan.has_past(), sizes().kv_heads, sizes().total_length(), sizes().head_size),
      value(sizes().packed && !plan.has_past(), sizes().kv_heads, sizes().total_length(), sizes().value_head_size) {}

void pack_attention_panels(const float* data, std::int64_t k_stride, std::int64_t column_stride, std::int64_t k,
                           std::int64_t columns, std::int64_t panel, std::int64_t lanes, float* to) {
  for (std::int64_t column = 0; column < columns; column += panel) {
    const std::int64_t width = std::min(panel, columns - column), stride = round_up(width, lanes);
    gemm_f32_isa().pack(data + column * column_stride, column_stride, k_stride, width, k, to, stride);
    for (std::int64_t row = 0; width < stride && row < k; ++row)
      std::fill(to + row * stride + width, to + (row + 1) * stride, 0.0f);
    to += k * stride;
  }
}

}  // namespace tessera::backends::cpu
