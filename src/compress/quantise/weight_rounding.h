// Rounds weights to integers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::compress {

// q[i] = round(w[i] / scale[channel of i]), where the channel is the index on `axis`; symmetric, from -127 to 127.
struct ChannelWeights {
  Tensor values;  // i8, of the weights' shape
  Tensor scales;  // f32 [channels]
  std::int64_t axis = 0;
};

// `least_scales` are lower bounds of the scales; empty for no bounds. A channel of zeros has a scale of at least 1.
ChannelWeights round_by_channel(const Tensor& weights, std::int64_t axis, std::span<const double> least_scales = {});

// The real numbers that the integers stand for.
Tensor real_weights(const ChannelWeights& weights);

// The weights, of rank 2, with their axes exchanged.
ChannelWeights transposed(const ChannelWeights& weights);

// The scales with which the dequantised weights of each channel have the standard deviation of the exact ones (R.
// Banner et al., arXiv:1810.05723, section 4.3; the bias correction takes care of their means). f32 [channels].
Tensor with_variance_of(const Tensor& exact, const ChannelWeights& rounded);

// The number of elements of the weights before an axis, on it and behind it.
struct AxisSplit {
  std::int64_t outer = 1, axis = 1, inner = 1;
};
AxisSplit split_at(const Shape& shape, std::int64_t axis);

// The operands of com.microsoft::MatMulNBits: [n, blocks, bytes] of numbers around 2^(bits-1), in groups of `group`
// along k, and the scales [n, blocks]. Each scale is the one with the least squared error among a few.
struct RoundedBlocks {
  Tensor numbers, scales;
  std::int64_t n = 0, k = 0;
};
// `axis` is that of the outputs in the two-dimensional weights; `bits` is 4 or 8.
RoundedBlocks round_by_block(const Tensor& weights, std::int64_t axis, int bits, std::int64_t group);

// Packs integers, i8 [n, k], the least of which is -2^(bits-1), with their scales, f32 [n, blocks], as round_by_block
// does.
RoundedBlocks pack_blocks(const Tensor& integers, const Tensor& scales, int bits, std::int64_t group);

// By the index of a layer, its weights if they are rounded in another way than to the nearest integers.
struct RoundedWeights {
  std::map<std::size_t, ChannelWeights> channels;
  std::map<std::size_t, RoundedBlocks> blocks;
};

}  // namespace tessera::compress
