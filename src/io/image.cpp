#include "io/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/checked.h"
#include "base/error.h"
#include "io/file.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 30;

void check_pixels(std::int64_t width, std::int64_t height, const ImageOptions& options) {
  require(width > 0 && height > 0, ErrorKind::invalid_argument, "picture of {} x {} pixels", width, height);
  require(base::checked_multiply(width, height) <= options.max_pixels, ErrorKind::over_budget,
          "picture of {} x {} pixels, more than the limit of {} pixels", width, height, options.max_pixels);
}

// Uses libpng's simplified interface: it keeps its long jumps to itself and reports errors as values.
Tensor read_png(std::span<const std::byte> bytes, const ImageOptions& options) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> guard(&image, &png_image_free);
  const auto check = [&](int result) {
    require(result != 0, ErrorKind::invalid_argument, "cannot read PNG: {}", image.message);
  };
  check(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  check_pixels(image.width, image.height, options);
  // Deflate packs at most 1032 : 1, and a pixel takes at least one bit.
  require(std::int64_t{image.width} * image.height / 8 / 1032 <= static_cast<std::int64_t>(bytes.size()),
          ErrorKind::invalid_argument, "cannot read PNG: {} bytes cannot hold {} x {} pixels", bytes.size(),
          image.width, image.height);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const bool alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  const bool color = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = alpha ? PNG_FORMAT_RGBA : color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Tensor pixels(DType::u8, {image.height, image.width, alpha ? 4 : color ? 3 : 1});
  check(png_image_finish_read(&image, nullptr, pixels.mutable_raw(), 0, nullptr));
  return pixels;
}

Tensor read_jpeg(std::span<const std::byte> bytes, const ImageOptions& options) {
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

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Tensor read_image_bytes(std::span<const std::byte> bytes, const ImageOptions& options) {
  const int channels = options.channels;
  require(channels == 0 || channels == 1 || channels == 3 || channels == 4, ErrorKind::invalid_argument,
          "pictures have 1, 3 or 4 channels, not {}", channels);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return convert_channels(read_png(bytes, options), channels);
  if (begins_with(bytes, "\xFF\xD8\xFF")) return convert_channels(read_jpeg(bytes, options), channels);
  fail(ErrorKind::unsupported, "neither PNG nor JPEG");
}

Tensor read_image(const std::filesystem::path& path, const ImageOptions& options) {
  const std::vector<std::byte> bytes = read_file(path, kMaxFileBytes);
  try {
    return read_image_bytes(bytes, options);
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", path.string()));
    throw;
  }
}

}  // namespace tessera::io
