// Weights as integers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::compress {

// q[i] = round(w[i] / scale[channel of i]), the channel being the index on `axis`; symmetric, from -127 to 127.
struct ChannelWeights {
  Tensor values;  // i8, of the weights' shape
  Tensor scales;  // f32 [channels]
  std::int64_t axis = 0;
};

// `least_scales`: the scales are at least so large; empty: no bounds. A channel of zeros has scale 1 at least.
ChannelWeights round_by_channel(const Tensor& weights, std::int64_t axis, std::span<const double> least_scales = {});

// The real numbers that the integers stand for.
Tensor real_weights(const ChannelWeights& weights);

// The same weights, of rank 2, with their axes exchanged.
ChannelWeights transposed(const ChannelWeights& weights);

// Scales with which the real numbers of each channel have the standard deviation of the exact weights (R. Banner et
// al., arXiv:1810.05723, section 4.3; their means are the bias correction's). f32 [channels].
Tensor with_variance_of(const Tensor& exact, const ChannelWeights& rounded);

// Elements of the weights before an axis, on it and behind it.
struct AxisSplit {
  std::int64_t outer = 1, axis = 1, inner = 1;
};
AxisSplit split_at(const Shape& shape, std::int64_t axis);

// The operands of com.microsoft::MatMulNBits: [n, blocks, bytes] of numbers around 2^(bits-1), in groups of `group`
// along k, each with the scale (of [n, blocks]) that gives the least squared error among a few.
struct BlockWeights {
  Tensor numbers, scales;
  std::int64_t n = 0, k = 0;
};
// `axis`: of the outputs in the two-dimensional weights; 4 or 8 bits.
BlockWeights round_by_block(const Tensor& weights, std::int64_t axis, int bits, std::int64_t group);

// Packs integers, i8 [n, k], from -2^(bits-1) on, with their scales, f32 [n, blocks], as the function above does.
BlockWeights pack_blocks(const Tensor& integers, const Tensor& scales, int bits, std::int64_t group);

// Weights of layers that are rounded in another way than to the nearest integers, by the index of the layer.
struct RoundedWeights {
  std::map<std::size_t, ChannelWeights> channels;
  std::map<std::size_t, BlockWeights> blocks;
};

}  // namespace tessera::compress
