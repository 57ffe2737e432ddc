// The operations of attention on rows of scores, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// The state of a softmax over scores that come block by block (M. Milakov and N. Gimelshein, "Online normalizer
// calculation for softmax", arXiv:1805.02867): the largest score of a row so far, and the sum of e^(score - largest).
struct SoftmaxState {
  float largest, sum;
};

// The changes to a row's scores before softmax: softcap · tanh(score / softcap) unless softcap is 0; then the values of
// the mask and the second mask are added; -infinity where `allowed` is false. Finally a replacement value, where it is
// not NaN, takes the place of the score. All pointers are to the row at hand and may be null.
struct ScoreRule {
  float softcap = 0;
  const float* mask = nullptr;
  const bool* allowed = nullptr;
  const float* replacement = nullptr;
  const float* second_mask = nullptr;
};

// The values from which the gradients of a row's scores are computed: its statistics (see ops::kAttentionStatistics),
// the mean of the gradients of its weights, Σ dY ∘ Y, and the rule between product and softmax; `softcap` is not used.
// If the largest score is -infinity, weights are NaN if `propagates_nan`, else 0.
struct GradientRule {
  float scale, largest, inverse_sum, mean;
  bool propagates_nan;
  ScoreRule rule;
};

struct AttentionRows {
  // scores[i] = query · key i; key i is `size` floats at keys + i * stride.
  void (*scores)(const float* query, const float* keys, std::int64_t stride, std::int64_t size, std::int64_t count,
                 float* scores);
  // Replaces the scores of a row's next block by weights e^(score - largest so far). Returns the factor by which sums
  // with earlier weights must be rescaled: 0 if no earlier score counted.
  float (*weigh)(float* scores, std::int64_t count, const ScoreRule& rule, SoftmaxState& state);
  // y += Σ weight i · value i; value i is `size` floats at values + i * stride. With `skips_zeros`, values of weight 0
  // are not read.
  void (*add_weighted)(const float* weights, const float* values, std::int64_t stride, std::int64_t size,
                       std::int64_t count, bool skips_zeros, float* y);
  // Replaces the products of a query with `count` keys by weights, and the gradients of the weights by those of the
  // products. Both are 0 from `count` up to `width`, and where a weight is 0; gradients are also 0 where a score was
  // replaced.
  void (*go_back)(const GradientRule& rule, float* products, float* gradients, std::int64_t count, std::int64_t width);
  // y = factor · x, or 0 if the factor is 0. May be in place.
  void (*scale)(const float* x, float factor, std::int64_t count, float* y);
  bool (*is_finite)(const float* x, std::int64_t count);
  // Interleaves two rows of bfloat16 as pairs, padded with zeros to `width` pairs; with zeros as second numbers if
  // `second` is null. Returns whether all numbers are finite.
  bool (*join_pair)(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count, std::int64_t width,
                    std::uint16_t* to);
  // Converts float16 numbers (bits) to float32.
  void (*from_f16)(const std::uint16_t* x, std::int64_t count, float* y);
  // Rounds float32 numbers to float16 (bits), to nearest even.
  void (*to_f16)(const float* x, std::int64_t count, std::uint16_t* y);
  // y = scale · x.
  void (*from_s8)(const std::int8_t* x, float scale, std::int64_t count, float* y);
};

// Returns the functions of the active instruction set.
const AttentionRows& attention_rows();

}  // namespace tessera::backends::cpu
