// Depthwise convolution of bfloat16 data for one line (row) of outputs, with float32 sums. Self-contained, as
// indirect_product_s8.h.
//
// Order of a sum: over the lines of the window, and along each line over its taps. With bfloat16 instructions: over
// pairs of lines, along them over their taps, and of each pair the lower line first (VDPBF16PS, see
// indirect_product_bf16.h).
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

struct DepthwiseBf16 {
  static constexpr std::int64_t kLanes = 32;  // weights and bias are padded to a multiple

  std::int64_t channels = 0, padded_channels = 0;  // also the distance between pixels, of data and weights
  std::int64_t line_count = 0;                     // lines of the window inside of the image
  const std::uint16_t* const* lines = nullptr;     // [line_count]
  const std::uint16_t* const* weights = nullptr;   // [line_count], each [kernel][padded_channels]
  std::int64_t input = 0, output = 0, kernel = 0, stride = 1, dilation = 1, pad_begin = 0;  // along the line
  const float* bias = nullptr;                                                              // [padded_channels]
  const void* addend = nullptr;                         // [output][channels]; or null
  void* result = nullptr;                               // clamp(bias + Σ data·weights + addend), [output][channels]
  bool rounded_addend = false, rounded_result = false;  // bfloat16 instead of float32
  float low = 0, high = 0;
};

using RunDepthwiseBf16 = void (*)(const DepthwiseBf16&);
void depthwise_bf16_portable(const DepthwiseBf16& line);
void depthwise_bf16_avx512(const DepthwiseBf16& line);
void depthwise_bf16_avx512bf16(const DepthwiseBf16& line);
// Returns the function of the active instruction set.
RunDepthwiseBf16 depthwise_bf16();

}  // namespace tessera::backends::cpu
