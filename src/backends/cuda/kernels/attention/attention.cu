// Architectures: 75 80 86 89 90a 100 120
// Gate: attention_f32 registers 80 shared 4096 instruction MUFU
// Gate: attention_f16 registers 80 shared 4096 instruction MUFU
// Gate: attention_bf16 registers 80 shared 4096 instruction MUFU
#include <math.h>

#include "backends/cuda/kernels/attention/attention.h"

namespace tessera::cuda {
namespace {

constexpr int kValuesPerLane = kAttentionHeadSize / 32;
// Blocks that share a multiprocessor: 80 registers per thread. Left to itself, ptxas aims at 64 and spills on sm_90a.
constexpr int kResidentBlocks = 6;

struct Queries {
  float values[kAttentionWarps][kAttentionHeadSize];
};

// The row of a launch, by its number.
struct AttentionRow {
  std::int64_t batch;
  int head, query;
};

__device__ __forceinline__ float table_value(const ScoreTable& table, const AttentionRow& row, int key) {
  const std::int64_t at =
      row.batch * table.batch_stride + row.head * table.head_stride + row.query * table.query_stride + key;
  if (table.type == StoredType::boolean)
    return static_cast<const std::uint8_t*>(table.values)[at] != 0 ? 0.0f : -INFINITY;
  if (table.type == StoredType::f16) return to_float(static_cast<const Float16*>(table.values)[at]);
  if (table.type == StoredType::bf16) return to_float(static_cast<const Bfloat16*>(table.values)[at]);
  return static_cast<const float*>(table.values)[at];
}

// The operand of softmax, from the product of query and key.
__device__ __forceinline__ float masked_score(const AttentionParameters& p, const AttentionRow& row, int key,
                                              float product) {
  if (key >= p.keys || (p.causal && key > row.query)) return -INFINITY;
  if (p.mask.values != nullptr && key >= p.mask.keys) return -INFINITY;
  if (p.replacement.values != nullptr) {
    const float number = table_value(p.replacement, row, key);
    if (number == number) return number;
  }
  float score = product * p.scale;
  if (p.softcap > 0.0f) score = p.softcap * tanhf(score / p.softcap);
  if (p.mask.values != nullptr) score += table_value(p.mask, row, key);
  return p.second_mask.values != nullptr ? score + table_value(p.second_mask, row, key) : score;
}

template <class T>
__device__ __forceinline__ float product_with_key(const AttentionParameters& p, const float* query, const T* k) {
  float sum = 0;
  for (int i = 0; i < p.head_size; ++i) sum += query[i] * to_float(k[i]);
  return sum;
}

__device__ __forceinline__ float largest_of_warp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, step);
    value = value > other || value != value ? value : other;
  }
  return value;
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

template <class T>
__device__ __forceinline__ void attend(const AttentionParameters& p, const AttentionRow& row, const float* query) {
  const int lane = static_cast<int>(threadIdx.x) % 32, kv_head = row.head / p.heads_per_kv;
  const T* const k = static_cast<const T*>(p.k) + row.batch * p.k_layout.batch + kv_head * p.k_layout.head;
  const T* const v = static_cast<const T*>(p.v) + row.batch * p.v_layout.batch + kv_head * p.v_layout.head;
  float largest = -INFINITY, sum = 0, result[kValuesPerLane] = {};
  const int end = p.causal ? min(p.keys, row.query + 1) : p.keys;
#pragma unroll 1  // spills otherwise
  for (int first = 0; first < end; first += 32) {
    const int key = first + lane;
    const float product = key < end ? product_with_key(p, query, k + key * p.k_layout.row) : 0.0f;
    const float score = masked_score(p, row, key, product);
    const float group = largest_of_warp(score);
    const float next = largest > group || largest != largest ? largest : group;
    const float decay = largest == next ? 1.0f : expf(largest - next);
    const float weight = score == -INFINITY && next == -INFINITY ? 0.0f : expf(score - next);
    largest = next;
    sum = sum * decay + sum_of_warp(weight);
#pragma unroll
    for (int i = 0; i < kValuesPerLane; ++i) result[i] *= decay;
#pragma unroll 1
    for (int other = 0; other < 32 && first + other < end; ++other) {
      const float share = __shfl_sync(kAllLanes, weight, other);
      if (share == 0.0f && p.skips_zeros) continue;
      const T* const values = v + (first + other) * p.v_layout.row;
#pragma unroll
      for (int i = 0; i < kValuesPerLane; ++i) {
        if (i * 32 + lane < p.value_size) result[i] += share * to_float(values[i * 32 + lane]);
      }
    }
  }
  const bool empty = largest == -INFINITY;
  const bool zeros = empty ? p.empty_rows != EmptyRows::propagate : sum != sum && p.empty_rows == EmptyRows::zeros;
  T* const y =
      static_cast<T*>(p.y) + row.batch * p.y_layout.batch + row.head * p.y_layout.head + row.query * p.y_layout.row;
#pragma unroll
  for (int i = 0; i < kValuesPerLane; ++i) {
    if (i * 32 + lane < p.value_size) y[i * 32 + lane] = from_float<T>(zeros ? 0.0f : empty ? NAN : result[i] / sum);
  }
}

template <class T>
__device__ __forceinline__ void attention(const AttentionParameters& p) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float* const query = static_shared<Queries>().values[warp];
  for (std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kAttentionWarps + warp; number < p.rows;
       number += static_cast<std::int64_t>(gridDim.x) * kAttentionWarps) {
    AttentionRow row;
    row.query = static_cast<int>(number % p.queries);
    row.head = static_cast<int>(number / p.queries % p.heads);
    row.batch = number / p.queries / p.heads;
    const T* const q = static_cast<const T*>(p.q) + row.batch * p.q_layout.batch + row.head * p.q_layout.head +
                       row.query * p.q_layout.row;
    __syncwarp();  // the row before has been read
    for (int i = lane; i < p.head_size; i += 32) query[i] = to_float(q[i]);
    __syncwarp();
    attend<T>(p, row, query);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kResidentBlocks)
    attention_f32(const __grid_constant__ AttentionParameters p) {
  attention<float>(p);
}
extern "C" __global__ void __launch_bounds__(kAttentionThreads, kResidentBlocks)
    attention_f16(const __grid_constant__ AttentionParameters p) {
  attention<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kAttentionThreads, kResidentBlocks)
    attention_bf16(const __grid_constant__ AttentionParameters p) {
  attention<Bfloat16>(p);
}

}  // namespace tessera::cuda
