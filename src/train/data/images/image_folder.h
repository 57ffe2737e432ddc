// A folder of pictures with a folder a class in it, as ImageNet and many others are laid out:
//   flowers/daisy/1.jpg, flowers/daisy/2.png, flowers/rose/1.jpg …
#pragma once

#include <filesystem>
#include <memory>

#include "train/data/dataset.h"

namespace tessera::train {

struct ImageFolderOptions {
  std::int64_t height = 0, width = 0;  // pictures are resized to it; 0: that of the first picture
  int channels = 3;                    // 1 or 3
  std::vector<std::string> classes;    // their order gives the numbers; empty: the folders' names, sorted
};

// Fields x f32 [channels, height, width] in [0, 1] and y i64 []. Files are decoded when they are read; one that is no
// picture of a known format is an error of its sample alone. Resizing keeps the aspect ratio: the shorter side is
// scaled to cover the target (bilinear, averaging over the source pixels where it shrinks), and the centre is cut out.
// Pictures in folders that are not among given classes cannot be read either. Throws Error: not_found or io for the
// folder, invalid_argument where it has no classes or no files.
std::unique_ptr<Dataset> open_image_folder(const std::filesystem::path& folder, const ImageFolderOptions& options);

// u8 [height, width, channels] to planar f32 in [0, 1] of the given size, as above. `to` has channels · height · width
// elements.
void resize_to_cover(const Tensor& picture, std::int64_t height, std::int64_t width, float* to);

}  // namespace tessera::train
