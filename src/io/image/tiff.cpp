#include <tiffio.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/image/decoders.h"
#include "io/image/orientation.h"

namespace tessera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "libtiff's RGBA words are read as bytes");

constexpr std::int64_t kMostBytesAPixel = 12;  // the result, and a strip of 16 bits that is the whole image

// A file in memory as libtiff sees it, and the first thing that it complains of.
struct MemoryFile {
  Bytes bytes;
  toff_t position = 0;
  std::string error;
};

MemoryFile& file_of(thandle_t handle) {
  return *static_cast<MemoryFile*>(handle);
}

tmsize_t read_bytes(thandle_t handle, void* to, tmsize_t count) {
  MemoryFile& file = file_of(handle);
  if (file.position >= file.bytes.size() || count <= 0) return 0;
  const std::size_t taken =
      std::min(static_cast<std::size_t>(count), file.bytes.size() - static_cast<std::size_t>(file.position));
  std::memcpy(to, file.bytes.data() + file.position, taken);
  file.position += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t refuse_writing(thandle_t, void*, tmsize_t) {
  return -1;
}

toff_t seek(thandle_t handle, toff_t offset, int from) {
  MemoryFile& file = file_of(handle);
  if (from == SEEK_CUR) offset += file.position;
  if (from == SEEK_END) offset += file.bytes.size();
  return file.position = offset;
}

toff_t size_of_file(thandle_t handle) {
  return file_of(handle).bytes.size();
}
int close_nothing(thandle_t) {
  return 0;
}

int keep_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  std::string& error = static_cast<MemoryFile*>(user)->error;
  if (!error.empty()) return 1;
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  error = text;
  return 1;  // handled: the process-wide handler is not called
}

int ignore_warning(TIFF*, void*, const char*, const char*, va_list) {
  return 1;
}

using Tiff = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

Tiff open(MemoryFile& file, const ImageOptions& options) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> settings(TIFFOpenOptionsAlloc(),
                                                                                  &TIFFOpenOptionsFree);
  require(settings != nullptr, ErrorKind::over_budget, "cannot make a TIFF decoder");
  TIFFOpenOptionsSetErrorHandlerExtR(settings.get(), keep_error, &file);
  TIFFOpenOptionsSetWarningHandlerExtR(settings.get(), ignore_warning, nullptr);
  // The largest thing that is read at once is a strip or tile: 16 bits and 4 channels of the whole picture at most.
  TIFFOpenOptionsSetMaxSingleMemAlloc(settings.get(), options.max_pixels * 8 + (1 << 20));
  // m: do not map the file
  return Tiff(TIFFClientOpenExt("memory", "rm", &file, read_bytes, refuse_writing, seek, close_nothing, size_of_file,
                                nullptr, nullptr, settings.get()),
              &TIFFClose);
}

// Alpha as it stands: libtiff multiplies the colours by an alpha that is declared as unassociated.
void keep_colors_under_alpha(TIFF* tiff) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 0 || count == 0 || kinds[0] != EXTRASAMPLE_UNASSALPHA)
    return;
  std::vector<std::uint16_t> associated(kinds, kinds + count);
  associated[0] = EXTRASAMPLE_ASSOCALPHA;
  TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, count, associated.data());
}

// The first channels of RGBA.
Tensor first_channels(Tensor rgba, std::int64_t channels) {
  if (channels == 4) return rgba;
  Tensor result(DType::u8, {rgba.shape()[0], rgba.shape()[1], channels});
  const std::uint8_t* from = rgba.data<std::uint8_t>();
  for (std::uint8_t* to = result.mutable_data<std::uint8_t>(); from < rgba.data<std::uint8_t>() + rgba.elements();
       from += 4, to += channels)
    std::copy_n(from, channels, to);
  return result;
}

}  // namespace

// The first picture of the file, of any kind that libtiff turns into RGBA (integers of up to 16 bits; all compressions
// that it was built with).
Tensor read_tiff(Bytes bytes, const ImageOptions& options) {
  MemoryFile file{bytes, 0, {}};
  const auto check = [&](bool good, const char* otherwise) {
    require(good, ErrorKind::invalid_argument, "cannot read TIFF: {}",
            file.error.empty() ? otherwise : file.error.c_str());
  };
  const Tiff tiff = open(file, options);
  check(tiff != nullptr, "malformed header");
  std::uint32_t width = 0, height = 0;
  check(TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) != 0 &&
            TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height) != 0,
        "no size");
  check_pixels(width, height, options, kMostBytesAPixel);
  char reason[1024] = "";
  require(TIFFRGBAImageOK(tiff.get(), reason) != 0, ErrorKind::unsupported, "TIFF of a kind that is not supported: {}",
          reason);
  keep_colors_under_alpha(tiff.get());

  TIFFRGBAImage image;
  check(TIFFRGBAImageBegin(&image, tiff.get(), 1, reason) != 0, reason);
  const std::unique_ptr<TIFFRGBAImage, decltype(&TIFFRGBAImageEnd)> guard(&image, &TIFFRGBAImageEnd);
  image.req_orientation = image.orientation;  // rows and columns as they are stored, for oriented()
  Tensor rgba(DType::u8, {height, width, 4});
  check(TIFFRGBAImageGet(&image, static_cast<std::uint32_t*>(rgba.mutable_raw()), width, height) != 0, "damaged data");
  check(file.error.empty(), "damaged data");
  const bool grey = image.photometric == PHOTOMETRIC_MINISBLACK || image.photometric == PHOTOMETRIC_MINISWHITE;
  return oriented(first_channels(std::move(rgba), image.alpha != 0 ? 4 : grey ? 1 : 3), image.orientation);
}

}  // namespace tessera::io
