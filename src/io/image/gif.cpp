// The first image of a GIF file, on the canvas that the file declares
// (https://www.w3.org/Graphics/GIF/spec-gif89a.txt).
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {
namespace {

// The image's indices and table on top of the canvas's; they are small beside 4 channels.
constexpr std::int64_t kMostBytesAPixel = 8;
constexpr int kNoColor = -1;

struct MemoryFile {
  Bytes bytes;
  std::size_t position = 0;
};

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  MemoryFile& file = *static_cast<MemoryFile*>(gif->UserData);
  const std::size_t taken = std::min(static_cast<std::size_t>(std::max(count, 0)), file.bytes.size() - file.position);
  if (taken > 0) std::memcpy(to, file.bytes.data() + file.position, taken);
  file.position += taken;
  return static_cast<int>(taken);
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

void check(bool good, int error) {
  const char* const text = GifErrorString(error);
  require(good, ErrorKind::invalid_argument, "cannot read GIF: {}", text != nullptr ? text : "malformed or truncated");
}

// Reads the extensions before the first image. Returns the index of the colour that is transparent, or kNoColor.
int read_extensions(GifFileType& gif) {
  int transparent = kNoColor;
  GifRecordType record = UNDEFINED_RECORD_TYPE;
  while (record != IMAGE_DESC_RECORD_TYPE) {
    check(DGifGetRecordType(&gif, &record) == GIF_OK, gif.Error);
    require(record != TERMINATE_RECORD_TYPE, ErrorKind::invalid_argument, "cannot read GIF: it holds no image");
    if (record != EXTENSION_RECORD_TYPE) continue;
    int kind = 0;
    GifByteType* data = nullptr;
    check(DGifGetExtension(&gif, &kind, &data) == GIF_OK, gif.Error);
    GraphicsControlBlock control;
    if (kind == GRAPHICS_EXT_FUNC_CODE && data != nullptr && DGifExtensionToGCB(data[0], data + 1, &control) == GIF_OK)
      transparent = control.TransparentColor;
    while (data != nullptr) check(DGifGetExtensionNext(&gif, &data) == GIF_OK, gif.Error);
  }
  return transparent;
}

// Rows of an interlaced image come in four passes.
std::vector<std::int64_t> row_order(std::int64_t height, bool is_interlaced) {
  constexpr std::array<std::array<std::int64_t, 2>, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(height));
  for (const auto& [first, step] : kPasses) {
    for (std::int64_t y = is_interlaced ? first : 0; y < height; y += is_interlaced ? step : 1) order.push_back(y);
    if (!is_interlaced) break;
  }
  return order;
}

}  // namespace

Tensor read_gif(Bytes bytes, const ImageOptions& options) {
  MemoryFile file{bytes};
  int error = 0;
  const std::unique_ptr<GifFileType, Close> gif(DGifOpen(&file, read_bytes, &error));
  check(gif != nullptr, error);
  const int transparent = read_extensions(*gif);
  check(DGifGetImageDesc(gif.get()) == GIF_OK, gif->Error);
  const GifImageDesc& image = gif->Image;
  // The canvas grows with an image that stands over its edge, as in other readers.
  const std::int64_t width = std::max(gif->SWidth, image.Left + image.Width);
  const std::int64_t height = std::max(gif->SHeight, image.Top + image.Height);
  require(image.Width > 0 && image.Height > 0, ErrorKind::invalid_argument,
          "cannot read GIF: an image of {} x {} pixels", image.Width, image.Height);
  check_pixels(width, height, options, kMostBytesAPixel);
  const ColorMapObject* const colors = image.ColorMap != nullptr ? image.ColorMap : gif->SColorMap;
  require(colors != nullptr && colors->ColorCount > 0, ErrorKind::invalid_argument, "cannot read GIF: no colour table");

  const bool has_alpha = transparent != kNoColor;
  const std::int64_t channels = has_alpha ? 4 : 3;
  Tensor pixels(DType::u8, {height, width, channels});
  const auto put = [&](std::uint8_t* to, int index) {
    // An index beyond the table is black.
    const GifColorType color = index < colors->ColorCount ? colors->Colors[index] : GifColorType{};
    to[0] = color.Red, to[1] = color.Green, to[2] = color.Blue;
    if (has_alpha) to[3] = index == transparent ? 0 : 255;
  };
  std::uint8_t* const canvas = pixels.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < pixels.elements(); i += channels) put(canvas + i, has_alpha ? transparent : 0);
  std::vector<GifPixelType> row(static_cast<std::size_t>(image.Width));
  for (const std::int64_t y : row_order(image.Height, image.Interlace)) {
    check(DGifGetLine(gif.get(), row.data(), image.Width) == GIF_OK, gif->Error);
    std::uint8_t* to = canvas + ((image.Top + y) * width + image.Left) * channels;
    for (const GifPixelType index : row) put(to, index), to += channels;
  }
  return pixels;
}

}  // namespace tessera::io
