#include <turbojpeg.h>

#include <memory>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {

// The decoder's defaults are what ONNX asks of ImageDecoder: linear ("fancy") chroma upsampling with ordered rounding.
Tensor read_jpeg(Bytes bytes, const ImageOptions& options) {
  const auto destroy = [](void* decoder) { tjDestroy(decoder); };
  const std::unique_ptr<void, decltype(destroy)> decoder(tjInitDecompress(), destroy);
  require(decoder != nullptr, ErrorKind::over_budget, "cannot make a JPEG decoder");
  const auto check = [&](int result) {
    require(result == 0, ErrorKind::invalid_argument, "cannot read JPEG: {}", tjGetErrorStr2(decoder.get()));
  };
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, space = 0;
  check(tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &subsampling, &space));
  check_pixels(width, height, options);
  require(space != TJCS_CMYK && space != TJCS_YCCK, ErrorKind::unsupported,
          "CMYK JPEGs are not supported; convert to RGB");
  const bool grey = space == TJCS_GRAY;
  Tensor pixels(DType::u8, {height, width, grey ? 1 : 3});
  // Warnings mean missing or damaged data, which the decoder would fill with grey; the scan limit stops small files
  // that take hours.
  constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  check(tjDecompress2(decoder.get(), data, bytes.size(), pixels.mutable_data<std::uint8_t>(), width, 0, height,
                      grey ? TJPF_GRAY : TJPF_RGB, flags));
  return pixels;
}

}  // namespace tessera::io
