// Depthwise convolution of bfloat16 numbers along a line of outputs, with sums of float32. Self-contained, as
// indirect_product_s8.h.
//
// A sum has the order of the window's lines, and along a line of its taps; with instructions for bfloat16, of pairs of
// lines, along them of their taps, and of a pair the lower line first (VDPBF16PS, see indirect_product_bf16.h).
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

struct DepthwiseBf16 {
  static constexpr std::int64_t kLanes = 32;  // weights and bias are filled up to a whole number of these

  std::int64_t channels = 0, padded_channels = 0;  // also from pixel to pixel, of data and of weights
  std::int64_t line_count = 0;                     // of the window's lines, those inside of the picture
  const std::uint16_t* const* lines = nullptr;     // [line_count]
  const std::uint16_t* const* weights = nullptr;   // [line_count], each [kernel][padded_channels]
  std::int64_t input = 0, output = 0, kernel = 0, stride = 1, dilation = 1, pad_begin = 0;  // along the line
  const float* bias = nullptr;                                                              // [padded_channels]
  const void* addend = nullptr;                         // or null; [output][channels]
  void* result = nullptr;                               // clamp(bias + Σ data·weights + addend), [output][channels]
  bool rounded_addend = false, rounded_result = false;  // bfloat16 instead of floats
  float low = 0, high = 0;
};

using RunDepthwiseBf16 = void (*)(const DepthwiseBf16&);
void depthwise_bf16_portable(const DepthwiseBf16& line);
void depthwise_bf16_avx512(const DepthwiseBf16& line);
void depthwise_bf16_avx512bf16(const DepthwiseBf16& line);
// For the instruction set active now.
RunDepthwiseBf16 depthwise_bf16();

}  // namespace tessera::backends::cpu
