// Images at another size.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/tensor.h"

namespace tessera::io {

// A rectangle of an image, in its pixels.
struct ImageWindow {
  double top = 0, left = 0, height = 0, width = 0;
};

// Linear interpolation at height x width places of the window of an image u8 [rows, columns, channels]; where it
// shrinks, pixels are averaged under a triangle as wide as two steps. At the edges of the image the triangle takes what
// there is, as Pillow and PyTorch do. Writes channels-last values 0 to 255 to `to`. Beside it, it takes memory for a
// row, not for the image. `stop`, where it is set, is called between rows; what it throws ends the work.
void resize_image(const Tensor& image, const ImageWindow& window, std::int64_t height, std::int64_t width, float* to,
                  const std::function<void()>& stop = nullptr);

}  // namespace tessera::io
