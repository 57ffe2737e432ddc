// The traversal of a feature map by the kernels of batch normalisation in training, for any axis of channels.
//
// With channels last, [rows, channels], pieces of some rows are summed per channel in float32, and the sums of the
// pieces are joined in double precision, in order. With channels before other axes, [outer, channels, inner], a channel
// is one work item, and its lines are summed segment by segment. Neither depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/backend.h"

namespace tessera::backends::cpu {

struct BatchNormChannels {
  BatchNormChannels(const Shape& shape, std::int64_t given_axis) {
    const auto axis =
        static_cast<std::size_t>(ops::normalise_axis(given_axis, static_cast<std::int64_t>(shape.size())));
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    channels = shape[axis];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }

  bool are_last() const { return inner == 1; }
  double count() const { return static_cast<double>(outer * inner); }

  // --- with the channels last ---

  // The rows of a piece: about 64 KiB of a feature map.
  std::int64_t rows_a_piece() const {
    return std::clamp<std::int64_t>(kPieceElements / std::max<std::int64_t>(1, channels), 8, 512);
  }
  std::int64_t pieces() const { return (outer + rows_a_piece() - 1) / rows_a_piece(); }
  std::int64_t rows_of(std::int64_t piece) const { return std::min(rows_a_piece(), outer - piece * rows_a_piece()); }

  static constexpr std::int64_t kPieceElements = 16384;
  static constexpr std::int64_t kSegmentElements = 4096;  // of a line
  static constexpr std::int64_t kChannelGrain = 64;       // channels per chunk when sums of pieces are joined

  std::int64_t outer = 1, channels = 1, inner = 1;
};

}  // namespace tessera::backends::cpu
