// What attention does to rows of scores, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// Softmax over scores that come block by block (M. Milakov and N. Gimelshein, "Online normalizer calculation for
// softmax", arXiv:1805.02867): the largest score of one row so far, and the sum of e^(score - largest).
struct SoftmaxState {
  float largest, sum;
};

// What becomes of a score before softmax: softcap · tanh(score / softcap) unless that is 0, then plus the mask's value
// and that of the second mask, or -infinity where `allowed` is false; in place of all that the replacement where it is
// not NaN. Of the row at hand; each may be null.
struct ScoreRule {
  float softcap = 0;
  const float* mask = nullptr;
  const bool* allowed = nullptr;
  const float* replacement = nullptr;
  const float* second_mask = nullptr;
};

// What the gradients of a row's scores are computed from: its statistics (see ops::kAttentionStatistics), the mean of
// the gradients of its weights, Σ dY ∘ Y, and what stood between product and softmax; `softcap` is not looked at. Where
// the largest score is -infinity, weights are NaN if `propagates_nan`, else 0.
struct GradientRule {
  float scale, largest, inverse_sum, mean;
  bool propagates_nan;
  ScoreRule rule;
};

struct AttentionRows {
  // scores[i] = query · key i, which is `size` floats at keys + i * stride.
  void (*scores)(const float* query, const float* keys, std::int64_t stride, std::int64_t size, std::int64_t count,
                 float* scores);
  // One more block of a row: the scores become their weights e^(score - largest so far). Returns the factor that brings
  // what was summed up with earlier weights to the same measure: 0 where nothing counted so far.
  float (*weigh)(float* scores, std::int64_t count, const ScoreRule& rule, SoftmaxState& state);
  // y += Σ weight i · value i, which is `size` floats at values + i * stride. Values of weight 0 are not looked at if
  // `skips_zeros`.
  void (*add_weighted)(const float* weights, const float* values, std::int64_t stride, std::int64_t size,
                       std::int64_t count, bool skips_zeros, float* y);
  // The products of a query with `count` keys become the weights of these, and the gradients of the weights become
  // those of the products. Both are 0 from there on to `width`, and where a weight is 0; the gradients are 0 where a
  // score was replaced.
  void (*go_back)(const GradientRule& rule, float* products, float* gradients, std::int64_t count, std::int64_t width);
  // y = factor · x, and 0 for a factor of 0. May be in place.
  void (*scale)(const float* x, float factor, std::int64_t count, float* y);
  bool (*is_finite)(const float* x, std::int64_t count);
  // Two rows of bfloat16 number by number as pairs, zeros up to `width` of them; of one row with zeros where `second`
  // is null. Returns whether all are finite.
  bool (*join_pair)(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count, std::int64_t width,
                    std::uint16_t* to);
};

// For the instruction set active now.
const AttentionRows& attention_rows();

}  // namespace tessera::backends::cpu
