#include <algorithm>
#include <cmath>

#include "backends/cpu/convolutions/depthwise/depthwise_bf16.h"
#include "base/numbers/half.h"

namespace tessera::backends::cpu {

void depthwise_bf16_portable(const DepthwiseBf16& line) {
  constexpr std::int64_t kBlock = 64;  // channels at a time
  for (std::int64_t o = 0; o < line.output; ++o) {
    const std::int64_t start = o * line.stride - line.pad_begin;
    for (std::int64_t first = 0; first < line.channels; first += kBlock) {
      const std::int64_t count = std::min(kBlock, line.channels - first);
      float sums[kBlock];
      std::copy_n(line.bias + first, count, sums);
      for (std::int64_t l = 0; l < line.line_count; ++l) {
        for (std::int64_t k = 0; k < line.kernel; ++k) {
          const std::int64_t pixel = start + k * line.dilation;
          if (pixel < 0 || pixel >= line.input) continue;
          const std::uint16_t* x = line.lines[l] + pixel * line.channels + first;
          const std::uint16_t* w = line.weights[l] + k * line.padded_channels + first;
          for (std::int64_t c = 0; c < count; ++c)
            sums[c] += base::to_float(bf16_t{x[c]}) * base::to_float(bf16_t{w[c]});
        }
      }
      const std::int64_t at = o * line.channels + first;
      for (std::int64_t c = 0; c < count; ++c) {
        float value = sums[c];
        if (line.addend != nullptr)
          value += line.rounded_addend ? base::to_float(bf16_t{static_cast<const std::uint16_t*>(line.addend)[at + c]})
                                       : static_cast<const float*>(line.addend)[at + c];
        value = value < line.low ? line.low : value;  // NaN stays NaN
        value = value > line.high ? line.high : value;
        if (line.rounded_result) static_cast<std::uint16_t*>(line.result)[at + c] = base::to_bf16(value).bits;
        else static_cast<float*>(line.result)[at + c] = value;
      }
    }
  }
}

}  // namespace tessera::backends::cpu
