#include <turbojpeg.h>

#include <memory>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {

namespace {

// CMYK files hold how much light each ink lets through, as Adobe's programs write it; the black ink dims the others.
Tensor rgb_of_inks(const Tensor& pixels) {
  Tensor rgb(DType::u8, {pixels.shape()[0], pixels.shape()[1], 3});
  const std::uint8_t* from = pixels.data<std::uint8_t>();
  std::uint8_t* to = rgb.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < pixels.shape()[0] * pixels.shape()[1]; ++i, from += 4, to += 3) {
    for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>((from[c] * from[3] + 127) / 255);
  }
  return rgb;
}

}  // namespace

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
  const bool grey = space == TJCS_GRAY, inks = space == TJCS_CMYK || space == TJCS_YCCK;
  Tensor pixels(DType::u8, {height, width, grey ? 1 : inks ? 4 : 3});
  // Warnings mean missing or damaged data, which the decoder would fill with grey; the scan limit stops small files
  // that take hours.
  constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  check(tjDecompress2(decoder.get(), data, bytes.size(), pixels.mutable_data<std::uint8_t>(), width, 0, height,
                      grey   ? TJPF_GRAY
                      : inks ? TJPF_CMYK
                             : TJPF_RGB,
                      flags));
  return inks ? rgb_of_inks(pixels) : pixels;
}

}  // namespace tessera::io
