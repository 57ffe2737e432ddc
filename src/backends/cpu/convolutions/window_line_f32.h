// Lines (rows) of outputs of windows that slide over one channel each, in channels-last float32: weighted sums
// (depthwise convolution), plain sums and maxima (pooling). A block of channels slides along a line of outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

enum class WindowSum : std::uint8_t { weighted, plain, maximum };

// A line of outputs [count][channels] and the lines of inputs under its windows.
struct WindowLine {
  // For every line of the window that is inside of the image: its first element, and its weights [kernel][padded
  // channels].
  std::vector<const float*> inputs, weights;
  ops::WindowAxis axis;  // along the line
  std::int64_t channels = 0, padded_channels = 0;
  const float* bias = nullptr;      // [padded channels]; weighted sums only
  const float* addend = nullptr;    // in the layout of the outputs, or null
  const float* divisors = nullptr;  // one per output, for means; or null
  float* output = nullptr;
  float low = 0, high = 0;
};
// Computes the channels [begin, end) of a line.
using WindowFunction = void (*)(const WindowLine&, std::int64_t begin, std::int64_t end);

// For the active instruction set: the function; the channels rounded up to whole vectors; and the number of channels
// that should be read together, since reading one vector per pixel is slow.
WindowFunction window_function(WindowSum kind);
std::int64_t window_padded_channels(std::int64_t channels);
std::int64_t window_block_channels();

}  // namespace tessera::backends::cpu
