// Chooses the decoder of a picture by its first bytes.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/image/decoders.h"
#include "tessera/images.h"
#include "tessera/tessera_images.h"

namespace tessera::io {
namespace {

// ITU-R BT.601 luma in 16-bit fixed point.
std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

Tensor convert_channels(Tensor pixels, std::int64_t channels) {
  const std::int64_t have = pixels.shape()[2];
  if (channels == 0 || channels == have) return pixels;
  Tensor result(DType::u8, {pixels.shape()[0], pixels.shape()[1], channels});
  const std::uint8_t* from = pixels.data<std::uint8_t>();
  std::uint8_t* to = result.mutable_data<std::uint8_t>();
  const std::int64_t count = pixels.elements() / have;
  for (std::int64_t i = 0; i < count; ++i, from += have, to += channels) {
    if (channels == 1) {
      to[0] = luma(from);
      continue;
    }
    for (int c = 0; c < 3; ++c) to[c] = have == 1 ? from[0] : from[c];
    if (channels == 4) to[3] = 255;
  }
  return result;
}

using namespace std::string_view_literals;

struct Format {
  std::string_view signature;  // '?' stands for any byte
  Tensor (*read)(Bytes, const ImageOptions&);
};

constexpr Format kFormats[] = {
    {"\x89PNG\r\n\x1a\n", read_png},
    {"\xFF\xD8\xFF", read_jpeg},
    {"GIF87a", read_gif},
    {"GIF89a", read_gif},
    {"BM", read_bmp},
    {"RIFF????WEBP", read_webp},
    {"II*\0"sv, read_tiff},
    {"MM\0*"sv, read_tiff},
    {"II+\0"sv, read_tiff},  // BigTIFF
    {"MM\0+"sv, read_tiff},
    {"\0\0\0\x0CjP  \r\n\x87\n"sv, read_jpeg2000},
    {"\xFF\x4F\xFF\x51", read_jpeg2000},  // a bare codestream
    {"P1", read_pnm},
    {"P2", read_pnm},
    {"P3", read_pnm},
    {"P4", read_pnm},
    {"P5", read_pnm},
    {"P6", read_pnm},
};

bool begins_with(Bytes bytes, std::string_view signature) {
  if (bytes.size() < signature.size()) return false;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] != '?' && bytes[i] != static_cast<std::byte>(signature[i])) return false;
  }
  return true;
}

}  // namespace

void check_pixels(std::int64_t width, std::int64_t height, const ImageOptions& options, std::int64_t bytes_a_pixel) {
  require(width > 0 && height > 0, ErrorKind::invalid_argument, "picture of {} x {} pixels", width, height);
  require(base::checked_multiply(width, height) <= options.max_pixels, ErrorKind::over_budget,
          "picture of {} x {} pixels, more than the limit of {} pixels", width, height, options.max_pixels);
  if (options.reserve) options.reserve(base::checked_multiply(width * height, bytes_a_pixel));
}

Tensor decode_image(Bytes bytes, const ImageOptions& options) {
  const int channels = options.channels;
  require(channels == 0 || channels == 1 || channels == 3 || channels == 4, ErrorKind::invalid_argument,
          "pictures have 1, 3 or 4 channels, not {}", channels);
  for (const Format& format : kFormats) {
    if (begins_with(bytes, format.signature)) return convert_channels(format.read(bytes, options), channels);
  }
  std::string begin;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 8)))
    begin += fmt::format(" {:02x}", std::to_integer<int>(byte));
  fail(ErrorKind::unsupported,
       "none of the picture formats that are read: BMP, GIF, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP; {}",
       bytes.empty() ? "there are no bytes" : "the first bytes are" + begin);
}

}  // namespace tessera::io

namespace tessera {

void register_image_codecs() {
  set_image_decoder(io::decode_image);
}

}  // namespace tessera

void tessera_register_image_codecs(void) {
  tessera::register_image_codecs();
}
