#include <turbojpeg.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "io/image/decoders.h"
#include "io/image/orientation.h"

namespace tessera::io {

namespace {

// What the library holds at most: two bytes for each coefficient of a progressive file, and the result.
constexpr std::int64_t kGreyBytes = 5, kColorBytes = 9, kInkBytes = 12;

// a · b / 255, rounded.
int product(int a, int b) {
  const int scaled = a * b + 128;
  return ((scaled >> 8) + scaled) >> 8;
}

// CMYK files hold how much light each ink lets through, as Adobe's programs write it, with Adobe's marker or without;
// the black ink dims the others. Rounded as Pillow does.
Tensor rgb_of_inks(const Tensor& pixels) {
  Tensor rgb(DType::u8, {pixels.shape()[0], pixels.shape()[1], 3});
  const std::uint8_t* from = pixels.data<std::uint8_t>();
  std::uint8_t* to = rgb.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < pixels.shape()[0] * pixels.shape()[1]; ++i, from += 4, to += 3) {
    for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(from[3] - product(255 - from[c], from[3]));
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
  const bool grey = space == TJCS_GRAY, inks = space == TJCS_CMYK || space == TJCS_YCCK;
  check_pixels(width, height, options, grey ? kGreyBytes : inks ? kInkBytes : kColorBytes);
  Tensor pixels(DType::u8, {height, width, grey ? 1 : inks ? 4 : 3});
  // Warnings mean missing or damaged data, which the decoder would fill with grey; the scan limit stops small files
  // that take hours.
  constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  check(tjDecompress2(decoder.get(), data, bytes.size(), pixels.mutable_data<std::uint8_t>(), width, 0, height,
                      grey   ? TJPF_GRAY
                      : inks ? TJPF_CMYK
                             : TJPF_RGB,
                      flags));
  if (inks) pixels = rgb_of_inks(pixels);
  return oriented(std::move(pixels), jpeg_orientation(bytes));
}

}  // namespace tessera::io
