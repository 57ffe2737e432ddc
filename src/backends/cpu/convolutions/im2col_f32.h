// The right operand of a convolution as a matrix product, generated panel by panel while the product runs, so that the
// whole matrix (im2col of Chellapilla, Puri and Simard, 2006) never exists.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

// Row (c, kernel position) and column (output position), both row-major, hold the input under the window at this
// output, kernel position and channel c, or 0 in the padding. Any number of spatial axes.
class Im2col {
 public:
  explicit Im2col(std::vector<ops::WindowAxis> axes);

  // One image of one group, [channels, spatial...]: the state for PackRight.
  struct Image {
    const Im2col* geometry;
    const float* data;
  };
  // A PackRight. May write up to one vector beyond the last row; columns beyond `width` are undefined.
  static void pack(const void* image, std::int64_t k_begin, std::int64_t k, std::int64_t column, std::int64_t width,
                   float* to, std::int64_t stride);

  std::int64_t kernel_positions() const { return kernel_positions_; }
  std::int64_t output_positions() const { return output_positions_; }
  std::int64_t input_positions() const { return input_positions_; }

 private:
  std::vector<ops::WindowAxis> axes_;
  std::int64_t kernel_positions_ = 1, output_positions_ = 1, input_positions_ = 1;
};

}  // namespace tessera::backends::cpu
