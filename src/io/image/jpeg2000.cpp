#include <openjpeg.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/image/decoders.h"
#include "io/image/jpeg2000_header.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostBytesASample = 10;

struct MemoryFile {
  Bytes bytes;
  std::size_t position = 0;
};

OPJ_SIZE_T read_bytes(void* to, OPJ_SIZE_T count, void* user) {
  MemoryFile& file = *static_cast<MemoryFile*>(user);
  const std::size_t taken = std::min<std::size_t>(count, file.bytes.size() - file.position);
  if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::copy_n(file.bytes.begin() + static_cast<std::ptrdiff_t>(file.position), taken, static_cast<std::byte*>(to));
  file.position += taken;
  return taken;
}

OPJ_OFF_T skip(OPJ_OFF_T count, void* user) {
  MemoryFile& file = *static_cast<MemoryFile*>(user);
  const auto left = static_cast<OPJ_OFF_T>(file.bytes.size() - file.position);
  if (count < 0 || count > left) return -1;
  file.position += static_cast<std::size_t>(count);
  return count;
}

OPJ_BOOL seek(OPJ_OFF_T position, void* user) {
  MemoryFile& file = *static_cast<MemoryFile*>(user);
  if (position < 0 || static_cast<std::size_t>(position) > file.bytes.size()) return OPJ_FALSE;
  file.position = static_cast<std::size_t>(position);
  return OPJ_TRUE;
}

void keep_error(const char* message, void* user) {
  std::string& error = *static_cast<std::string*>(user);
  if (error.empty()) error = std::string(message, std::string_view(message).find_last_not_of("\r\n") + 1);
}

using Image = std::unique_ptr<opj_image_t, decltype(&opj_image_destroy)>;

Image decode(Bytes bytes, bool codestream) {
  MemoryFile file{bytes};
  std::string error;
  const std::unique_ptr<opj_stream_t, decltype(&opj_stream_destroy)> stream(
      opj_stream_create(std::max<std::size_t>(bytes.size(), 64), OPJ_TRUE), &opj_stream_destroy);
  const std::unique_ptr<opj_codec_t, decltype(&opj_destroy_codec)> codec(
      opj_create_decompress(codestream ? OPJ_CODEC_J2K : OPJ_CODEC_JP2), &opj_destroy_codec);
  require(stream != nullptr && codec != nullptr, ErrorKind::over_budget, "cannot make a JPEG 2000 decoder");
  opj_stream_set_user_data(stream.get(), &file, nullptr);
  opj_stream_set_user_data_length(stream.get(), bytes.size());
  opj_stream_set_read_function(stream.get(), read_bytes);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  opj_set_error_handler(codec.get(), keep_error, &error);
  const auto check = [&](bool good) {
    require(good, ErrorKind::invalid_argument, "cannot read JPEG 2000: {}",
            error.empty() ? "malformed or truncated" : error);
  };
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  // Strict: a truncated picture is an error, not a blurred one.
  check(opj_setup_decoder(codec.get(), &parameters) && opj_decoder_set_strict_mode(codec.get(), OPJ_TRUE));
  opj_image_t* header = nullptr;
  const bool has_header = opj_read_header(stream.get(), codec.get(), &header);
  Image image(header, &opj_image_destroy);
  check(has_header && image != nullptr);
  check(opj_decode(codec.get(), stream.get(), image.get()));
  return image;
}

// One channel at full size as 8 bits; channels of fewer samples are repeated.
void read_channel(const opj_image_t& image, std::size_t c, std::uint8_t* to, std::int64_t stride) {
  const opj_image_comp_t& component = image.comps[c];
  require(component.data != nullptr && component.w > 0 && component.h > 0 && component.dx > 0 && component.dy > 0 &&
              component.prec >= 1 && component.prec <= 31,
          ErrorKind::invalid_argument, "cannot read JPEG 2000: channel {} is empty", c);
  const std::int64_t largest = (std::int64_t{1} << component.prec) - 1;
  const std::int64_t offset = component.sgnd != 0 ? std::int64_t{1} << (component.prec - 1) : 0;
  const auto index = [](std::uint32_t position, std::uint32_t origin, std::uint32_t step, std::uint32_t count) {
    const std::int64_t first = (std::int64_t{origin} + step - 1) / step;
    return std::clamp<std::int64_t>(position / step - first, 0, std::int64_t{count} - 1);
  };
  for (std::uint32_t y = image.y0; y < image.y1; ++y) {
    const std::int32_t* row = component.data + index(y, image.y0, component.dy, component.h) * component.w;
    for (std::uint32_t x = image.x0; x < image.x1; ++x, to += stride) {
      const std::int64_t value =
          std::clamp<std::int64_t>(row[index(x, image.x0, component.dx, component.w)] + offset, 0, largest);
      *to = static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
    }
  }
}

// Full-range luma and chroma of ITU-R BT.601 (sYCC, IEC 61966-2-1 annex F) to RGB.
void convert_ycc(Tensor& pixels) {
  const std::int64_t channels = pixels.shape()[2];
  std::uint8_t* pixel = pixels.mutable_data<std::uint8_t>();
  const auto byte = [](double value) { return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)); };
  for (std::int64_t i = 0; i < pixels.elements(); i += channels) {
    const double y = pixel[i], cb = pixel[i + 1] - 128.0, cr = pixel[i + 2] - 128.0;
    pixel[i] = byte(y + 1.402 * cr);
    pixel[i + 1] = byte(y - 0.344136 * cb - 0.714136 * cr);
    pixel[i + 2] = byte(y + 1.772 * cb);
  }
}

}  // namespace

Tensor read_jpeg2000(Bytes bytes, const ImageOptions& options) {
  const Jpeg2000Header header = read_jpeg2000_header(bytes);
  // The decoder holds every sample in 32 bits, twice.
  require(base::checked_multiply(base::checked_multiply(header.width, header.height), header.components) <=
              options.max_pixels,
          ErrorKind::over_budget,
          "JPEG 2000 picture of {} x {} pixels and {} channels, more than the limit of {} samples", header.width,
          header.height, header.components, options.max_pixels);
  check_pixels(header.width, header.height, options, kMostBytesASample * header.components);
  const Image image = decode(bytes, header.is_codestream);
  require(image->x1 - image->x0 == header.width && image->y1 - image->y0 == header.height, ErrorKind::invalid_argument,
          "cannot read JPEG 2000: two sizes");
  require(image->color_space != OPJ_CLRSPC_CMYK && image->color_space != OPJ_CLRSPC_EYCC, ErrorKind::unsupported,
          "JPEG 2000 in CMYK or e-sYCC is not supported; convert to RGB");
  const std::int64_t components = image->numcomps;
  require(components >= 1 && components <= 4, ErrorKind::unsupported, "JPEG 2000 of {} channels", components);
  const std::int64_t channels = components == 2 ? 4 : components;
  Tensor pixels(DType::u8, {header.height, header.width, channels});
  for (std::int64_t c = 0; c < channels; ++c) {
    // Two are grey and alpha.
    const std::int64_t source = components == 2 ? (c == 3 ? 1 : 0) : c;
    read_channel(*image, static_cast<std::size_t>(source), pixels.mutable_data<std::uint8_t>() + c, channels);
  }
  // A bare codestream does not say; fewer samples in the second channel mean chroma.
  const bool chroma = image->color_space <= OPJ_CLRSPC_UNSPECIFIED && components >= 3 && image->comps[0].dx == 1 &&
                      image->comps[1].dx > 1;
  if (components >= 3 && (image->color_space == OPJ_CLRSPC_SYCC || chroma)) convert_ycc(pixels);
  return pixels;
}

}  // namespace tessera::io
