// What the attention kernels of all types share: which queries a thread takes together, and which keys these may look
// at.
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

// Rows of [batch, heads, length, size] wherever heads lie; the elements of a row are contiguous.
struct AttentionHeads {
  std::int64_t batch_stride = 0, head_stride = 0, stride = 0;

  AttentionHeads(bool packed, std::int64_t heads, std::int64_t length, std::int64_t size)
      : batch_stride(heads * length * size),
        head_stride(packed ? size : length * size),
        stride(packed ? heads * size : size) {}
  std::int64_t at(std::int64_t batch, std::int64_t head) const { return batch * batch_stride + head * head_stride; }
};

// What keeps queries from keys in one call, or changes their scores; each may be null.
struct AttentionMasks {
  const float* mask = nullptr;
  const bool* allowed = nullptr;
  const std::int64_t* valid_keys = nullptr;
  const float* replacement = nullptr;
  const float* second_mask = nullptr;
};

// Which weights of one call are dropped: none where the ratio is 0.
struct AttentionDropout {
  double ratio = 0;
  base::Philox random{0};

  // What the weights of a query with keys [key, key + count) are multiplied by.
  void factors(const ops::AttentionSizes& sizes, std::int64_t batch, std::int64_t head, std::int64_t query,
               std::int64_t key, std::int64_t count, float* to) const {
    const std::int64_t row = (batch * sizes.query_heads + head) * sizes.query_length + query;
    dropout_factors(random, ratio, row * sizes.total_length() + key, count, to);
  }
};

// Where the rows of a mask lie that broadcasts to [batch, heads, queries, keys]. `length` may be less than the keys.
struct AttentionMaskStrides {
  std::int64_t length = 0, batch = 0, head = 0, query = 0;

  AttentionMaskStrides() = default;
  explicit AttentionMaskStrides(const Shape& mask);
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const { return b * batch + h * head + i * query; }
};

// Those of all masks of a node.
struct AttentionMaskLayout {
  AttentionMaskStrides mask, replacement, second_mask;

  AttentionMaskLayout() = default;
  // Of the inputs of a node, where it has them.
  AttentionMaskLayout(const ops::NodeView& view, std::size_t mask, std::size_t replacement, std::size_t second_mask);
  // For the scores of a query with the keys from `key` on.
  ScoreRule rule(const AttentionMasks& masks, std::int64_t batch, std::int64_t head, std::int64_t query,
                 std::int64_t key) const;
};

// Some queries of one head.
struct AttentionTask {
  std::int64_t batch, head, begin, end;
  std::int64_t keys;  // that any of them may look at
};

class AttentionPlan {
 public:
  // Queries come in panels of so many rows; packed keys and values of a block are about as many elements.
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
  // Values of weight 0 are not looked at; if causal, those of later keys never are.
  bool skips_zeros() const { return causal_ || nan_rows_ == ops::NanRows::zeros_for_no_key; }

  static AttentionMasks masks(const KernelContext& context);
  AttentionTask task(const AttentionMasks& masks, std::int64_t index) const;
  // Keys that query i may look at.
  std::int64_t visible(const AttentionTask& task, std::int64_t i) const;
  // For the scores of query i with the keys from `key` on.
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

// The plan of a node, and where the rows of its operands lie: of keys and values, where those of the past are before
// them.
struct AttentionLayout {
  AttentionPlan plan;
  const AttentionRows* rows;
  AttentionHeads query, output, key, value;

  AttentionLayout(const ops::NodeView& view, std::int64_t panel_rows, std::int64_t block_elements);
  const ops::AttentionSizes& sizes() const { return plan.sizes(); }
};

// At least `count` elements, kept for the next call.
template <typename T>
T* attention_room(std::vector<T>& vector, std::int64_t count) {
  if (vector.size() < static_cast<std::size_t>(count)) vector.resize(static_cast<std::size_t>(count));
  return vector.data();
}

// Columns of a right operand in the panels of an indirect product; word (k, column), of 32 bits, at data[k * k_stride +
// column * column_stride].
void pack_attention_panels(const float* data, std::int64_t k_stride, std::int64_t column_stride, std::int64_t k,
                           std::int64_t columns, std::int64_t panel, std::int64_t lanes, float* to);

}  // namespace tessera::backends::cpu
