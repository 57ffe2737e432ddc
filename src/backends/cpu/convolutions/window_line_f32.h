// Lines of outputs of windows that slide over one channel each, in float32 with the channels last: weighted sums
// (depthwise convolution), plain sums and maxima (pooling). A block of channels slides along a line of outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

enum class WindowSum : std::uint8_t { weighted, plain, maximum };

// A line of outputs [count][channels] and the lines of inputs under its windows.
struct WindowLine {
  // For every line of the window that lies inside of the image: where it begins there, and its weights [kernel][padded
  // channels].
  std::vector<const float*> inputs, weights;
  ops::WindowAxis axis;  // along the line
  std::int64_t channels = 0, padded_channels = 0;
  const float* bias = nullptr;      // padded channels; weighted sums only
  const float* addend = nullptr;    // laid out as the outputs, or null
  const float* divisors = nullptr;  // one an output, for means; or null
  float* output = nullptr;
  float low = 0, high = 0;
};
// Computes the channels [begin, end) of a line.
using WindowFunction = void (*)(const WindowLine&, std::int64_t begin, std::int64_t end);

// For the instruction set active now: the function, channels filled up to whole vectors, and how many channels should
// be read side by side, since one vector of each pixel would be read slowly.
WindowFunction window_function(WindowSum kind);
std::int64_t window_padded_channels(std::int64_t channels);
std::int64_t window_block_channels();

}  // namespace tessera::backends::cpu
