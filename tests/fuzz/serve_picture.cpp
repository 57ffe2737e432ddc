// A picture file as a served model gets it. The first byte chooses how it is resized, scaled and laid out: the
// network's input must have the size that was asked for, and finite numbers.
#include <array>
#include <cmath>

#include "serve/core/steps/image_tensor.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kHeight = 12, kMostWidth = 40;
constexpr std::int64_t kMostPixels = 1 << 22;

serve::PictureOptions options_of(std::size_t tag) {
  constexpr std::array kFits{serve::PictureFit::stretch, serve::PictureFit::pad, serve::PictureFit::width};
  constexpr std::array kScales{"unit", "none", "symmetric", "imagenet"};
  serve::PictureOptions options;
  options.width = kMostWidth;
  options.height = kHeight;
  options.fit = kFits[tag % 3];
  options.scale = kScales[tag / 3 % 4];
  options.channels = tag / 12 % 2 == 0 ? 3 : 1;
  options.channels_last = tag / 24 % 2 == 1;
  options.most_pixels = kMostPixels;
  options.order = tag / 48 % 2 == 0 ? "RGB" : "BGR";
  return options;
}

}  // namespace

void serve_picture(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  const serve::PictureOptions options = options_of(tag);
  std::int64_t reserved = 0;
  serve::ImageTensor made;
  try {
    made = serve::make_image_tensor(rest, options, [&](std::int64_t bytes) { reserved += bytes; }, nullptr);
  } catch (const Error&) {
    return;
  }
  if (reserved < made.height * made.width) finding("a picture takes more memory than was told");
  if (made.height * made.width > options.most_pixels) finding("a picture has more pixels than it may");
  const Tensor& tensor = made.tensor;
  const Shape& shape = tensor.shape();
  const std::size_t first = options.channels_last ? 1 : 2;
  const bool fits_width = options.fit == serve::PictureFit::width
                              ? shape[first + 1] >= 1 && shape[first + 1] <= kMostWidth
                              : shape[first + 1] == kMostWidth;
  if (shape.size() != 4 || shape[first] != kHeight || !fits_width)
    finding("a picture becomes a tensor of shape " + to_string(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(tensor.data<float>()[i])) finding("a picture becomes a number that is not finite");
  }
}

}  // namespace tessera::fuzz
