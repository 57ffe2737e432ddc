#include "io/image_resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera::io {
namespace {

// For each place of the result along an axis: the first element of the source that counts, and the weights of it and
// those that follow.
struct ResizeLine {
  std::int64_t taps = 0;
  std::vector<std::int64_t> first;
  std::vector<float> weights;  // [result, taps]
};

ResizeLine resize_line(std::int64_t source, double begin, double scale, std::int64_t count) {
  const double radius = std::max(1.0, scale);
  ResizeLine line;
  line.taps = std::min(static_cast<std::int64_t>(std::ceil(2 * radius)) + 1, source);
  line.first.reserve(static_cast<std::size_t>(count));
  line.weights.reserve(static_cast<std::size_t>(count * line.taps));
  std::vector<double> weights(static_cast<std::size_t>(line.taps));
  for (std::int64_t i = 0; i < count; ++i) {
    const double center =
        std::clamp(begin + (static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(source - 1));
    const auto first =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(center - radius)), 0, source - line.taps);
    double sum = 0;
    for (std::int64_t k = 0; k < line.taps; ++k) {
      double& weight = weights[static_cast<std::size_t>(k)];
      weight = std::max(0.0, 1 - std::abs(static_cast<double>(first + k) - center) / radius);
      sum += weight;
    }
    line.first.push_back(first);
    for (const double weight : weights) line.weights.push_back(static_cast<float>(weight / sum));
  }
  return line;
}

// One row of the image at the result's width.
void narrow_row(const std::uint8_t* row, std::int64_t channels, const ResizeLine& across, float* to) {
  const auto width = static_cast<std::int64_t>(across.first.size());
  std::fill_n(to, width * channels, 0.0f);
  for (std::int64_t x = 0; x < width; ++x, to += channels) {
    const std::uint8_t* from = row + across.first[static_cast<std::size_t>(x)] * channels;
    const float* weights = across.weights.data() + x * across.taps;
    if (channels == 3) {
      float red = 0, green = 0, blue = 0;
      for (std::int64_t k = 0; k < across.taps; ++k, from += 3) {
        red += weights[k] * static_cast<float>(from[0]);
        green += weights[k] * static_cast<float>(from[1]);
        blue += weights[k] * static_cast<float>(from[2]);
      }
      to[0] = red, to[1] = green, to[2] = blue;
      continue;
    }
    for (std::int64_t k = 0; k < across.taps; ++k) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] += weights[k] * static_cast<float>(*from++);
    }
  }
}

}  // namespace

void resize_image(const Tensor& image, const ImageWindow& window, std::int64_t height, std::int64_t width, float* to,
                  const std::function<void()>& stop) {
  const std::int64_t rows = image.shape()[0], columns = image.shape()[1], channels = image.shape()[2];
  const ResizeLine down = resize_line(rows, window.top, window.height / static_cast<double>(height), height);
  const ResizeLine across = resize_line(columns, window.left, window.width / static_cast<double>(width), width);
  const std::int64_t line = width * channels;
  std::vector<float> narrowed(static_cast<std::size_t>(line));
  std::fill_n(to, height * line, 0.0f);
  std::int64_t begin = 0, end = 0;  // the rows of the result that the row of the image counts for
  for (std::int64_t y = down.first.front(); y < rows && begin < height; ++y) {
    if (stop) stop();
    while (end < height && down.first[static_cast<std::size_t>(end)] <= y) ++end;
    while (begin < end && down.first[static_cast<std::size_t>(begin)] + down.taps <= y) ++begin;
    if (begin == end) continue;
    narrow_row(image.data<std::uint8_t>() + y * columns * channels, channels, across, narrowed.data());
    for (std::int64_t result = begin; result < end; ++result) {
      const float weight =
          down.weights[static_cast<std::size_t>(result * down.taps + y - down.first[static_cast<std::size_t>(result)])];
      float* sum = to + result * line;
      for (std::int64_t i = 0; i < line; ++i) sum[i] += weight * narrowed[static_cast<std::size_t>(i)];
    }
  }
}

}  // namespace tessera::io
