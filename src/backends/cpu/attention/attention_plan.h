// The plan that the attention kernels of all types share: which queries a thread processes together, and which keys
// these may attend to.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/element_wise/dropout.h"
#include "ops/attention/attention.h"

namespace tessera::backends::cpu {

enum AttentionOperand : std::size_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kPastKey,
  kPastValue,
  kValidKeys,
  kReplacement = ops::kAttentionReplacement,
  kSecondMask = ops::kAttentionSecondMask
};

inline constexpr std::int64_t kMostBlockKeys = 512;

// The layout of rows of [batch, heads, length, size]; the elements of a row are contiguous.
struct AttentionHeads {
  std::int64_t batch_stride = 0, head_stride = 0, stride = 0;

  AttentionHeads(bool packed, std::int64_t heads, std::int64_t length, std::int64_t size)
      : batch_stride(heads * length * size),
        head_stride(packed ? size : length * size),
        stride(packed ? heads * size : size) {}
  std::int64_t at(std::int64_t batch, std::int64_t head) const { return batch * batch_stride + head * head_stride; }
};

// The operands that mask keys from queries, or change their scores, in one call; each may be null.
struct AttentionMasks {
  const float* mask = nullptr;
  const bool* allowed = nullptr;
  const std::int64_t* valid_keys = nullptr;
  const float* replacement = nullptr;
  const float* second_mask = nullptr;
};

// The dropout of weights in one call; none if the ratio is 0.
struct AttentionDropout {
  double ratio = 0;
  base::Philox random{0};

  // Writes the factors on the weights of a query with the keys [key, key + count).
  void factors(const ops::AttentionSizes& sizes, std::int64_t batch, std::int64_t head, std::int64_t query,
               std::int64_t key, std::int64_t count, float* to) const {
    const std::int64_t row = (batch * sizes.query_heads + head) * sizes.query_length + query;
    dropout_factors(random, ratio, row * sizes.total_length() + key, count, to);
  }
};

// The strides of a mask that is broadcast to [batch, heads, queries, keys]. `length` may be less than the keys.
struct AttentionMaskStrides {
  std::int64_t length = 0, batch = 0, head = 0, query = 0;

  AttentionMaskStrides() = default;
  explicit AttentionMaskStrides(const Shape& mask);
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const { return b * batch + h * head + i * query; }
};

// The layouts of all masks of a node.
struct AttentionMaskLayout {
  AttentionMaskStrides mask, replacement, second_mask;

  AttentionMaskLayout() = default;
  // The layouts of the inputs with these indices, as far as the node has them.
  AttentionMaskLayout(const ops::NodeView& view, std::size_t mask, std::size_t replacement, std::size_t second_mask);
  // The rule for the scores of a query with the keys from `key` on.
  ScoreRule rule(const AttentionMasks& masks, std::int64_t batch, std::int64_t head, std::int64_t query,
                 std::int64_t key) const;
};

// Some queries of one head.
struct AttentionTask {
  std::int64_t batch, head, begin, end;
  std::int64_t keys;  // that any of the queries may attend to
};

class AttentionPlan {
 public:
  // Queries are processed in panels of `panel_rows`; a block's packed keys and values have about `block_elements`
  // elements.
  AttentionPlan(const ops::NodeView& view, std::int64_t panel_rows, std::int64_t block_elements);

  const ops::AttentionSizes& sizes() const { return sizes_; }
  bool has_past() const { return has_past_; }
  // Whether packing keys costs more than it saves.
  bool has_few_queries() const;
  std::int64_t block_keys() const { return block_keys_; }
  std::int64_t chunk_queries() const { return chunk_queries_; }
  std::int64_t tasks() const { return tasks_; }
  std::int64_t grain() const;  // of a loop over tasks
  ops::NanRows nan_rows() const { return nan_rows_; }
  // Whether values of weight 0 are not read; if causal, values of later keys never are.
  bool skips_zeros() const { return causal_ || nan_rows_ == ops::NanRows::zeros_for_no_key; }

  static AttentionMasks masks(const KernelContext& context);
  AttentionTask task(const AttentionMasks& masks, std::int64_t index) const;
  // The number of keys that query i may attend to.
  std::int64_t visible(const AttentionTask& task, std::int64_t i) const;
  // The rule for the scores of query i with the keys from `key` on.
  ScoreRule rule(const AttentionMasks& masks, const AttentionTask& task, std::int64_t key, std::int64_t i) const;

 private:
  bool has_past_;
  ops::AttentionSizes sizes_;
  bool causal_;
  ops::NanRows nan_rows_;
  float softcap_;
  std::int64_t block_keys_ = 0, chunk_queries_ = 0, chunks_ = 0, tasks_ = 0;
  AttentionMaskLayout masks_;
};

// The plan of a node, and the layout of its operands' rows; for keys and values, also of the past ones before them.
struct AttentionLayout {
  AttentionPlan plan;
  const AttentionRows* rows;
  AttentionHeads query, output, key, value;

  AttentionLayout(const ops::NodeView& view, std::int64_t panel_rows, std::int64_t block_elements);
  const ops::AttentionSizes& sizes() const { return plan.sizes(); }
};

// Returns at least `count` elements, whose memory is kept for the next call.
template <typename T>
T* attention_room(std::vector<T>& vector, std::int64_t count) {
  if (vector.size() < static_cast<std::size_t>(count)) vector.resize(static_cast<std::size_t>(count));
  return vector.data();
}

// Packs the columns of a right operand as panels of an indirect product; word (k, column), of 32 bits, is at data[k *
// k_stride + column * column_stride].
void pack_attention_panels(const float* data, std::int64_t k_stride, std::int64_t column_stride, std::int64_t k,
                           std::int64_t columns, std::int64_t panel, std::int64_t lanes, float* to);

}  // namespace tessera::backends::cpu
