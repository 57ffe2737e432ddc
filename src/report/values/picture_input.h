// A picture as the input of a model.
#pragma once

#include <filesystem>
#include <string>

#include "tessera/model.h"

namespace tessera::report {

// What is made of the bytes of a picture: whole numbers 0 to 255, 0 to 1, -1 to 1, or 0 to 1 less the mean of
// ImageNet's channels and divided by their deviation (RGB; https://pytorch.org/vision/stable/models.html). usual: unit
// for inputs of floats, none for integers.
enum class PictureScale : std::uint8_t { usual, none, unit, symmetric, imagenet };
// "none", "0-1", "-1-1", "imagenet"; "" is usual. Throws Error(invalid_argument) for another text.
PictureScale parse_picture_scale(const std::string& text);

struct PictureInput {
  Tensor tensor;
  std::string description;  // "640 x 480, resized to 224 x 224, RGB as f32[1, 3, 224, 224], values 0 to 1"
};

// Reads the file (see io/image.h) and makes of it what the input declares: [N, C, H, W] or [N, H, W, C], N being 1, or
// the same without N; 1 (grey), 3 (RGB) or 4 (RGBA) channels; floats, u8 or wider integers. Where the input fixes
// height and width the picture is stretched to them, by linear interpolation that averages when it shrinks; where it
// fixes one of them the other one keeps the picture's proportions; else it stays as it is. Throws Error:
// invalid_argument (an input that takes no picture, a scale that is not for it), and what reading the file throws.
PictureInput read_picture_input(const std::filesystem::path& path, const ValueDescription& input,
                                PictureScale scale = PictureScale::usual);

}  // namespace tessera::report
