#include "io/image/orientation.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tessera::io {
namespace {

constexpr int kUpright = 1;
constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3;
constexpr std::string_view kExif("Exif\0\0", 6);

// Whole numbers at places that may lie outside; those are 0.
class Reader {
 public:
  Reader(Bytes bytes, bool is_little) : bytes_(bytes), is_little_(is_little) {}

  std::size_t size() const { return bytes_.size(); }
  std::uint32_t number(std::size_t at, std::size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto byte = std::to_integer<std::uint32_t>(bytes_[at + i]);
      value |= byte << 8 * (is_little_ ? i : count - 1 - i);
    }
    return value;
  }
  bool is_at(std::size_t at, std::string_view text) const {
    return at <= bytes_.size() && bytes_.size() - at >= text.size() &&
           std::memcmp(bytes_.data() + at, text.data(), text.size()) == 0;
  }
  // At most so many bytes; fewer where the file ends.
  Bytes part(std::size_t at, std::size_t count) const {
    at = std::min(at, bytes_.size());
    return bytes_.subspan(at, std::min(count, bytes_.size() - at));
  }

 private:
  Bytes bytes_;
  bool is_little_;
};

}  // namespace

int exif_orientation(Bytes exif) {
  if (Reader(exif, true).is_at(0, kExif)) exif = exif.subspan(kExif.size());
  const Reader file(exif, Reader(exif, true).is_at(0, "II"));
  if (!file.is_at(0, "II") && !file.is_at(0, "MM")) return kUpright;
  if (file.number(2, 2) != 42) return kUpright;
  const std::size_t directory = file.number(4, 4);
  const std::size_t entries = file.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry >= file.size()) break;
    if (file.number(entry, 2) != kOrientationTag) continue;
    if (file.number(entry + 2, 2) != kShort || file.number(entry + 4, 4) != 1) return kUpright;
    const std::uint32_t value = file.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

// Segments are FF, a kind, and a length that counts itself (ITU-T T.81, B.1.1.4); several FF may stand before a kind.
int jpeg_orientation(Bytes bytes) {
  constexpr std::uint32_t kScan = 0xDA, kEnd = 0xD9, kApp1 = 0xE1;
  const Reader file(bytes, false);
  std::size_t at = 2;
  while (file.number(at, 1) == 0xFF) {
    while (file.number(at, 1) == 0xFF) ++at;
    const std::uint32_t kind = file.number(at, 1);
    const std::size_t length = file.number(at + 1, 2);
    if (kind == kScan || kind == kEnd || length < 2) break;
    if (kind == kApp1 && file.is_at(at + 3, kExif)) return exif_orientation(file.part(at + 3, length - 2));
    at += 1 + length;
  }
  return kUpright;
}

// Chunks are a length, a kind of four letters, data and a checksum; eXIf may stand behind the data of the image.
int png_orientation(Bytes bytes) {
  const Reader file(bytes, false);
  for (std::size_t at = 8; at < bytes.size();) {
    const std::size_t length = file.number(at, 4);
    if (file.is_at(at + 4, "eXIf")) return exif_orientation(file.part(at + 8, length));
    if (file.is_at(at + 4, "IEND")) break;
    at += 12 + length;
  }
  return kUpright;
}

// Chunks of RIFF are a kind, a length, and data of an even number of bytes.
int webp_orientation(Bytes bytes) {
  const Reader file(bytes, true);
  for (std::size_t at = 12; at < bytes.size();) {
    const std::size_t length = file.number(at + 4, 4);
    if (file.is_at(at, "EXIF")) return exif_orientation(file.part(at + 8, length));
    at += 8 + length + length % 2;
  }
  return kUpright;
}

Tensor oriented(Tensor pixels, int orientation) {
  if (orientation == kUpright) return pixels;
  const std::int64_t height = pixels.shape()[0], width = pixels.shape()[1], channels = pixels.shape()[2];
  const bool is_transposed = orientation >= 5;
  // The corner of the stored image that holds the first pixel of the upright one.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Tensor result(DType::u8, {is_transposed ? width : height, is_transposed ? height : width, channels});
  const std::uint8_t* const stored = pixels.data<std::uint8_t>();
  std::uint8_t* to = result.mutable_data<std::uint8_t>();
  for (std::int64_t y = 0; y < result.shape()[0]; ++y) {
    for (std::int64_t x = 0; x < result.shape()[1]; ++x, to += channels) {
      const std::int64_t row = is_transposed ? x : y, column = is_transposed ? y : x;
      const std::uint8_t* from =
          stored +
          ((from_bottom ? height - 1 - row : row) * width + (from_right ? width - 1 - column : column)) * channels;
      std::copy_n(from, channels, to);
    }
  }
  return result;
}

}  // namespace tessera::io
