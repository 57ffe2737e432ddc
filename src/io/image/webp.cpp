#include <webp/decode.h>

#include <utility>

#include "base/error.h"
#include "io/image/decoders.h"
#include "io/image/orientation.h"

namespace tessera::io {

Tensor read_webp(Bytes bytes, const ImageOptions& options) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  require(WebPGetFeatures(data, bytes.size(), &features) == VP8_STATUS_OK, ErrorKind::invalid_argument,
          "cannot read WebP: malformed or truncated header");
  require(features.has_animation == 0, ErrorKind::unsupported, "animated WebP is not supported; extract a frame");
  constexpr std::int64_t kMostBytesAPixel = 9;
  check_pixels(features.width, features.height, options, kMostBytesAPixel);
  const int channels = features.has_alpha != 0 ? 4 : 3;
  Tensor pixels(DType::u8, {features.height, features.width, channels});
  const auto decode = channels == 4 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  require(decode(data, bytes.size(), pixels.mutable_data<std::uint8_t>(), static_cast<std::size_t>(pixels.bytes()),
                 features.width * channels) != nullptr,
          ErrorKind::invalid_argument, "cannot read WebP: malformed or truncated picture of {} x {} pixels",
          features.width, features.height);
  return oriented(std::move(pixels), webp_orientation(bytes));
}

}  // namespace tessera::io
