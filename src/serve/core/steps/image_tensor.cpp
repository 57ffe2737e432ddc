#include "serve/core/steps/image_tensor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers/checked.h"
#include "io/image.h"
#include "io/image_resize.h"

namespace tessera::serve {
namespace {

// https://pytorch.org/vision/stable/models.html
constexpr std::array kImagenetMean{0.485f, 0.456f, 0.406f}, kImagenetDeviation{0.229f, 0.224f, 0.225f};

// The affine map of a value 0 to 255.
struct Scale {
  float factor = 1, addend = 0;
};

Scale scale_of(const PictureOptions& options, std::size_t channel) {
  if (options.scale == "none") return {};
  if (options.scale == "symmetric") return {1 / 127.5f, -1};
  if (options.scale != "imagenet") return {1 / 255.0f, 0};
  const float deviation = kImagenetDeviation[channel];
  return {1 / (255 * deviation), -kImagenetMean[channel] / deviation};
}

struct Size {
  std::int64_t height = 0, width = 0;
};

// a · b / c, at least 1 and at most `most`.
std::int64_t proportion(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t most) {
  return std::clamp<std::int64_t>(a * b / c, 1, most);
}

// The size that the image is resized to.
Size resized_size(const Size& image, const PictureOptions& options) {
  if (options.fit == PictureFit::stretch) return {options.height, options.width};
  return {options.fit == PictureFit::pad ? proportion(image.height, options.width, image.width, options.height)
                                         : options.height,
          proportion(image.width, options.height, image.height, options.width)};
}

// Puts the values of an image [size, channels] where the network expects them.
void arrange(const std::vector<float>& values, const Size& size, const Size& whole, const PictureOptions& options,
             float* to) {
  const std::int64_t channels = options.channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int64_t source = options.order == "BGR" ? channels - 1 - c : c;
    const Scale scale = scale_of(options, static_cast<std::size_t>(source));
    const std::int64_t step = options.channels_last ? channels : 1;
    float* target = options.channels_last ? to + c : to + c * whole.height * whole.width;
    const float filling = static_cast<float>(options.filling) * scale.factor + scale.addend;
    for (std::int64_t y = 0; y < whole.height; ++y) {
      const float* from = values.data() + y * size.width * channels + source;
      for (std::int64_t x = 0; x < whole.width; ++x, target += step, from += channels)
        *target = y < size.height && x < size.width ? *from * scale.factor + scale.addend : filling;
    }
  }
}

}  // namespace

ImageTensor make_image_tensor(std::span<const std::byte> file, const PictureOptions& options,
                              const std::function<void(std::int64_t)>& reserve, const std::function<void()>& stop) {
  io::ImageOptions decoding;
  decoding.channels = static_cast<int>(options.channels);
  decoding.max_pixels = options.most_pixels;
  decoding.reserve = [&](std::int64_t bytes) {
    // The result, and the values that it is made of.
    const std::int64_t values =
        base::checked_multiply(options.height * options.width, 2 * options.channels * std::int64_t{sizeof(float)});
    reserve(bytes + values);
  };
  const Tensor image = io::read_image_bytes(file, decoding);
  const Size found{image.shape()[0], image.shape()[1]}, size = resized_size(found, options);
  const Size whole = options.fit == PictureFit::width ? size : Size{options.height, options.width};
  // The weights of the interpolation, of which a very long side has many.
  reserve(8 * (found.height + found.width + size.height + size.width));
  std::vector<float> values(static_cast<std::size_t>(size.height * size.width * options.channels));
  const io::ImageWindow window{0, 0, static_cast<double>(found.height), static_cast<double>(found.width)};
  io::resize_image(image, window, size.height, size.width, values.data(), stop);
  const Shape shape = options.channels_last ? Shape{1, whole.height, whole.width, options.channels}
                                            : Shape{1, options.channels, whole.height, whole.width};
  ImageTensor result{Tensor(DType::f32, shape), found.height, found.width};
  arrange(values, size, whole, options, result.tensor.mutable_data<float>());
  return result;
}

}  // namespace tessera::serve
