// Makes an input of a model from an image file.
#pragma once

#include <filesystem>
#include <string>

#include "tessera/model.h"

namespace tessera::report {

// The range of an image's values in the input: whole numbers 0 to 255 (none), 0 to 1 (unit), -1 to 1 (symmetric), or 0
// to 1 normalised by the mean and deviation of ImageNet's channels (imagenet; RGB;
// https://pytorch.org/vision/stable/models.html). `usual` is unit for inputs of floats, and none for integers.
enum class PictureScale : std::uint8_t { usual, none, unit, symmetric, imagenet };
// Parses "none", "0-1", "-1-1", "imagenet", or "" for usual. Throws Error(invalid_argument) for other texts.
PictureScale parse_picture_scale(const std::string& text);

struct PictureInput {
  Tensor tensor;
  std::string description;  // "640 x 480, resized to 224 x 224, RGB as f32[1, 3, 224, 224], values 0 to 1"
};

// Reads the file (see io/image.h) and converts it to the input's declared type: [N, C, H, W] or [N, H, W, C] with N =
// 1, or the same without N; with 1 (grey), 3 (RGB) or 4 (RGBA) channels of floats, u8 or wider integers. If the input
// fixes height and width, the image is resized to them, by linear interpolation that averages when it shrinks; if it
// fixes one of them, the other keeps the image's proportions; else the size stays. Throws Error(invalid_argument) for
// an input that is not for images and for a scale that does not fit it, and the errors of reading the file.
PictureInput read_picture_input(const std::filesystem::path& path, const ValueDescription& input,
                                PictureScale scale = PictureScale::usual);

}  // namespace tessera::report
