// From the bytes of a picture file to a network's input, as a model of its own.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/model.h"

namespace tessera::serve {

enum class PictureFit {
  stretch,  // to width and height
  pad,      // in proportion into width and height, at the left and the top; the rest is filled
  width,    // to the height; the width follows in proportion
};

// The most memory that decoding and resizing one picture may take, unless a model's settings say otherwise: about 34
// million pixels of three channels. A file of some kilobytes can name any size.
inline constexpr std::int64_t kPictureMemoryBytes = std::int64_t{512} << 20;

struct PictureOptions {
  std::int64_t width = 0, height = 0;  // width: the most of it for PictureFit::width
  std::int64_t channels = 3;           // 3, or 1 for grey
  bool channels_last = false;
  PictureFit fit = PictureFit::stretch;
  std::string scale = "unit";  // "unit": 0 to 1; "none": 0 to 255; "symmetric": -1 to 1; "imagenet": 0 to 1, less the
                               // mean of ImageNet's channels, divided by their deviation
  std::string order = "RGB";   // of three channels, or "BGR"
  double filling = 114;        // of what PictureFit::pad adds, before scaling
};

// Input `image`: UINT8 [bytes of a picture file]. Outputs: `tensor` FP32 [1, channels, height, width] or, channels
// last, [1, height, width, channels]; `size` INT64 [2], height and width of the picture. Pixels are interpolated
// linearly, averaged where the picture shrinks. Throws Error(invalid_argument) for other scales and orders.
Model make_picture_graph(const std::string& name, const PictureOptions& options);

}  // namespace tessera::serve
