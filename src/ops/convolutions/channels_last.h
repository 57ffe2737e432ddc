// Convolution and pooling of data with the channels last, [N, spatial..., C]. Not ONNX: passes/layout/channels_last.cpp
// makes them of ONNX's operators, for devices that are faster with this layout, and they decompose into those between
// transposes.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef channels_last_conv;            // "tessera::ChannelsLastConv"
extern const OpDef channels_last_conv_transpose;  // "tessera::ChannelsLastConvTranspose"
extern const OpDef channels_last_max_pool;        // "tessera::ChannelsLastMaxPool"
extern const OpDef channels_last_average_pool;    // "tessera::ChannelsLastAveragePool"

// [N, C, spatial...] of [N, spatial..., C], and back; a Shape or ir::Dims of rank 2 or more.
template <typename List>
List channels_first(const List& x) {
  List result{x.front(), x.back()};
  result.insert(result.end(), x.begin() + 1, x.end() - 1);
  return result;
}
template <typename List>
List channels_last(const List& x) {
  List result{x.front()};
  result.insert(result.end(), x.begin() + 2, x.end());
  result.push_back(x[1]);
  return result;
}

// Permutations for Transpose.
std::vector<std::int64_t> to_channels_first(std::size_t rank);
std::vector<std::int64_t> to_channels_last(std::size_t rank);

}  // namespace tessera::ops
