// The arguments of the kernels of attention.h.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/element_wise/typed_parameters.h"

namespace tessera::cuda {

inline constexpr int kAttentionWarps = 4, kAttentionThreads = 32 * kAttentionWarps, kAttentionHeadSize = 256;

// A tensor [batch, heads, queries, keys]; strides in elements, 0 along axes that it is broadcast over.
struct ScoreTable {
  const void* values;  // null: none
  std::int64_t batch_stride, head_stride, query_stride;
  int keys;  // that it has an element for
  StoredType type;
};

// A query for whose scores there is no largest: all are -infinity, or one is not-a-number.
enum class EmptyRows : int { zeros_for_no_key, propagate, zeros };

// y = softmax(scale × q kᵀ + masks) v. Rows of q, k, v and y are dense; strides in elements.
struct AttentionParameters {
  const void *q, *k, *v;
  void* y;
  struct Layout {
    std::int64_t batch, head, row;
  } q_layout, k_layout, v_layout, y_layout;
  ScoreTable mask;         // added; bools: false excludes the key. Keys beyond its length are excluded.
  ScoreTable replacement;  // the score, where it is a number
  ScoreTable second_mask;  // added after the mask
  std::int64_t rows;       // batch × heads × queries
  int heads, heads_per_kv, queries, keys, head_size, value_size;
  float scale, softcap;  // softcap 0: none
  bool causal, skips_zeros;
  EmptyRows empty_rows;
};

}  // namespace tessera::cuda
