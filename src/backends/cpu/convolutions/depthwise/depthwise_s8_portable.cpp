#include <algorithm>
#include <cmath>

#include "backends/cpu/convolutions/depthwise/depthwise_s8.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBlock = DepthwiseS8::kChannels * DepthwiseS8::kGroup;

void interleave(const DepthwiseS8& line) {
  for (std::int64_t column = 0; column < line.columns; ++column) {
    const std::int64_t pixel = column - line.pad_begin;
    for (std::int64_t l = 0; l < line.line_groups * DepthwiseS8::kGroup; ++l) {
      std::uint8_t* to =
          line.interleaved + (column * line.line_groups + l / DepthwiseS8::kGroup) * kBlock + l % DepthwiseS8::kGroup;
      const std::uint8_t* from = pixel >= 0 && pixel < line.input && line.lines[l] != nullptr
                                     ? line.lines[l] + pixel * line.pixel_stride
                                     : nullptr;
      for (std::int64_t c = 0; c < line.channels; ++c)
        to[c * DepthwiseS8::kGroup] = from != nullptr ? from[c] : line.padding;
    }
  }
}

}  // namespace

void depthwise_s8_portable(const DepthwiseS8& line) {
  interleave(line);
  for (std::int64_t o = 0; o < line.outputs; ++o) {
    std::int32_t sums[DepthwiseS8::kChannels];
    std::copy_n(line.start, line.channels, sums);
    for (std::int64_t k = 0; k < line.kernel; ++k) {
      for (std::int64_t group = 0; group < line.line_groups; ++group) {
        const std::uint8_t* x =
            line.interleaved + ((o * line.stride + k * line.dilation) * line.line_groups + group) * kBlock;
        const std::int8_t* w = line.weights + (k * line.line_groups + group) * kBlock;
        for (std::int64_t c = 0; c < line.channels; ++c, x += DepthwiseS8::kGroup, w += DepthwiseS8::kGroup) {
          sums[c] += x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3];
        }
      }
    }
    std::uint8_t* result = line.result + o * line.pixel_stride;
    for (std::int64_t c = 0; c < line.channels; ++c) {
      const float value = static_cast<float>(sums[c]) * line.factor[c] + line.offset[c];
      const float bounded = value > line.low ? std::min(value, line.high) : line.low;  // NaN becomes the lower bound
      result[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(std::nearbyint(bounded)) + line.zero);
    }
  }
}

}  // namespace tessera::backends::cpu
