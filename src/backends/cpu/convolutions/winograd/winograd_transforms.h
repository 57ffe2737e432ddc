// Transforms of Winograd's F(4 × 4, 3 × 3), over vectors of channels. A. Lavin and S. Gray, "Fast Algorithms for
// Convolutional Neural Networks" (arXiv:1509.09308).
//
// The result is cut into tiles of 4 × 4, each of which depends on a patch of 6 × 6 inputs. The transforms of patches
// and weights have 36 parts, which are multiplied part by part and summed over channels; the sums are transformed back.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr std::int64_t kWinogradTile = 4, kWinogradPatch = 6, kWinogradParts = kWinogradPatch * kWinogradPatch;

// The form in which a patch is read: float32, float32 rounded to bfloat16 on reading, or bfloat16.
enum class WinogradInput : std::uint8_t { f32, rounded_f32, bf16 };

// A tile of the result and the patch of input that it depends on. Inputs outside of the image are zero; results outside
// of it are not written.
struct WinogradPatch {
  WinogradInput kind = WinogradInput::f32;
  const void* input = nullptr;  // of the slice
  std::int64_t top = 0, left = 0, rows = 0, columns = 0, channels = 0;
  std::int64_t row_step = 1,
               column_step = 1;  // distance between rows or columns of the patch, in rows or columns of the slice
  float* parts = nullptr;        // part p of channel c at parts[p * stride + c]
  std::int64_t stride = 0;
};
struct WinogradTile {
  const float* parts = nullptr;
  std::int64_t stride = 0, channels = 0;
  const float* bias = nullptr;                     // padded to whole vectors
  const float* addend = nullptr;                   // in the layout of the output; or null
  float* output = nullptr;                         // the tile's first element
  std::int64_t rows = 0, columns = 0;              // of the tile that are within the image
  std::int64_t row_stride = 0, column_stride = 0;  // from one to the next, in floats
  float low = 0, high = 0;
};
// The 3 × 3 windows between some neighbouring outputs and one input.
struct WinogradWeights {
  const float* windows = nullptr;  // weight t of output j at windows[t * columns + j], t < 9
  std::int64_t columns = 0;        // whole vectors
  float* parts = nullptr;          // part p of output j at parts[p * stride + j]
  std::int64_t stride = 0;
};
struct WinogradFunctions {
  void (*transform_input)(const WinogradPatch&);
  void (*transform_output)(const WinogradTile&);
  void (*transform_weights)(const WinogradWeights&);  // in float64, rounded once
};

// Returns the functions of the active instruction set.
const WinogradFunctions& winograd_functions();

}  // namespace tessera::backends::cpu
