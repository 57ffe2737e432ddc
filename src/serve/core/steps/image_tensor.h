// From the bytes of an image file to a network's input.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tessera/tensor.h"

namespace tessera::serve {

enum class PictureFit {
  stretch,  // to width and height
  pad,      // in proportion into width and height, at the left and the top; the rest is filled
  width,    // to the height; the width follows in proportion
};

struct PictureOptions {
  std::int64_t width = 0, height = 0;  // width: the most of it for PictureFit::width
  std::int64_t channels = 3;           // 3, or 1 for grey
  bool channels_last = false;
  PictureFit fit = PictureFit::stretch;
  std::string scale = "unit";  // "unit": 0 to 1; "none": 0 to 255; "symmetric": -1 to 1; "imagenet": 0 to 1, less the
                               // mean of ImageNet's channels, divided by their deviation
  std::string order = "RGB";   // of three channels, or "BGR"
  double filling = 114;        // of what PictureFit::pad adds, before scaling
  std::int64_t most_pixels = std::int64_t{1} << 25;  // of the file; JPEG 2000: samples
};

struct ImageTensor {
  Tensor tensor;  // f32 [1, channels, height, width] or, channels last, [1, height, width, channels]
  std::int64_t height = 0, width = 0;  // of the image, as it is to be seen
};

// Decodes, resizes by linear interpolation that averages where the image shrinks, and scales. `reserve` is called with
// the bytes that this takes before memory is asked for: once the header has been read, and once more before resizing.
// `stop` is called now and then. What they throw ends the work. Throws Error as tessera::ImageDecoder does.
ImageTensor make_image_tensor(std::span<const std::byte> file, const PictureOptions& options,
                              const std::function<void(std::int64_t)>& reserve, const std::function<void()>& stop);

}  // namespace tessera::serve
