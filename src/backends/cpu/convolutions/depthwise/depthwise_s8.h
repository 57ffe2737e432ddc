// int8 depthwise convolution of one row of outputs: one block of channels, with exact 32-bit sums. The lines under the
// windows are interleaved in groups of four, so that a four-byte dot product sums over the lines of a window; each
// output adds up the columns of its window. If windows are three columns of at most four lines, interleaved columns
// stay in registers from window to window. Self-contained, as indirect_product_s8.h.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

struct DepthwiseS8 {
  static constexpr std::int64_t kChannels = 64;  // of a block
  static constexpr std::int64_t kGroup = 4;      // lines interleaved

  std::int64_t channels = 0;                   // of this block
  std::int64_t line_groups = 0;                // groups of the window's lines
  const std::uint8_t* const* lines = nullptr;  // [line_groups * kGroup], at the block's first channel; null: padding
  std::int64_t pixel_stride = 0;               // bytes from pixel to pixel, of lines and results
  std::int64_t input = 0, pad_begin = 0;       // pixels of a line; columns of padding before it
  std::int64_t columns = 0;                    // spanned by all windows, from pad_begin columns before the line on
  std::uint8_t padding = 0;
  std::uint8_t* interleaved = nullptr;  // working memory [columns][line_groups][kChannels][kGroup], or null

  std::int64_t outputs = 0, kernel = 0, stride = 1, dilation = 1;
  const std::int8_t* weights = nullptr;  // [kernel][line_groups][kChannels][kGroup]
  const std::int32_t* start = nullptr;   // start, factor and offset are [kChannels]
  const float *factor = nullptr, *offset = nullptr;
  float low = 0, high = 0;  // round(clamp(factor sum + offset)) + zero fits an unsigned byte
  std::int32_t zero = 0;
  std::uint8_t* result = nullptr;
};

// The implementation for an instruction set. It may permute channels: channel c of a block is at position[c].
struct DepthwiseS8Isa {
  const char* name;
  void (*run)(const DepthwiseS8&);
  std::int64_t (*position)(std::int64_t channel);
};

void depthwise_s8_portable(const DepthwiseS8& line);
const DepthwiseS8Isa& depthwise_s8_avx2();
const DepthwiseS8Isa& depthwise_s8_avx512vnni();
// Returns the implementation for the active instruction set.
const DepthwiseS8Isa& depthwise_s8_isa();

}  // namespace tessera::backends::cpu
