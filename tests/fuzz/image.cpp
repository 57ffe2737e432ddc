// A picture of any format; the first byte chooses the number of channels.
#include "io/image.h"

#include <array>

#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void image(std::span<const std::byte> input) {
  constexpr std::array channels{0, 1, 3, 4};
  const auto [tag, bytes] = split_tag(input);
  io::ImageOptions options;
  options.channels = channels[tag % channels.size()];
  options.max_pixels = std::int64_t{1} << 22;
  try {
    const Tensor pixels = io::read_image_bytes(bytes, options);
    const bool as_asked = pixels.dtype() == DType::u8 && pixels.rank() == 3 &&
                          pixels.shape()[0] * pixels.shape()[1] <= options.max_pixels &&
                          (options.channels == 0 || pixels.shape()[2] == options.channels);
    if (!as_asked)
      finding("a picture of shape " + to_string(pixels.shape()) + " for " + std::to_string(options.channels) +
              " channels");
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
