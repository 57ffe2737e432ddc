// Windows bitmaps: 1, 4 and 8 bits with a palette (run lengths included), 16, 24 and 32 bits.
// https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostBytesAPixel = 8;

enum Compression : std::uint32_t { kNone = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3 };

template <typename... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  require(condition, ErrorKind::invalid_argument, "cannot read BMP: {}",
          fmt::format(format, std::forward<Args>(args)...));
}

// Little-endian numbers at checked places.
class File {
 public:
  explicit File(Bytes bytes) : bytes_(bytes) {}
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::uint8_t u8(std::int64_t at) const {
    check(at >= 0 && at < size(), "truncated at byte {}", size());
    return std::to_integer<std::uint8_t>(bytes_[static_cast<std::size_t>(at)]);
  }
  std::uint32_t u16(std::int64_t at) const { return u8(at) | std::uint32_t{u8(at + 1)} << 8; }
  std::uint32_t u32(std::int64_t at) const { return u16(at) | u16(at + 2) << 16; }

 private:
  Bytes bytes_;
};

using Color = std::array<std::uint8_t, 3>;

// A run of bits of a pixel, scaled to 0 … 255.
struct Field {
  std::uint32_t mask = 0;
  std::uint8_t of(std::uint32_t pixel) const {
    if (mask == 0) return 0;
    const int shift = std::countr_zero(mask);
    const std::uint64_t largest = mask >> shift, value = (pixel & mask) >> shift;
    return static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
  }
};

struct Header {
  std::int64_t width = 0, height = 0, bits = 0, pixels_at = 0;
  bool top_down = false;
  std::uint32_t compression = kNone;
  std::array<Field, 4> fields;  // red, green, blue, alpha of 16 and 32 bits
  std::vector<Color> palette;   // of 1, 4 and 8 bits
};

void read_fields(const File& file, std::int64_t info_size, Header& header) {
  if (header.bits != 16 && header.bits != 32) return;
  if (header.compression == kNone) {
    const bool small = header.bits == 16;
    header.fields = {Field{small ? 0x7C00u : 0xFF0000u}, Field{small ? 0x3E0u : 0xFF00u}, Field{small ? 0x1Fu : 0xFFu},
                     Field{}};
    return;
  }
  const std::size_t count = info_size >= 56 ? 4 : 3;  // the masks stand after the first 40 bytes in all versions
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t mask = file.u32(54 + 4 * static_cast<std::int64_t>(i));
    const bool contiguous = mask == 0 || std::has_single_bit((mask >> std::countr_zero(mask)) + std::uint64_t{1});
    check(contiguous && (header.bits == 32 || mask < 65536), "channel mask {:#x} of {} bits", mask, header.bits);
    header.fields[i].mask = mask;
  }
}

void read_palette(const File& file, std::int64_t info_size, std::int64_t used, Header& header) {
  if (header.bits > 8) return;
  const std::int64_t entry = info_size == 12 ? 3 : 4, most = std::int64_t{1} << header.bits;
  const std::int64_t begin = 14 + info_size;
  const std::int64_t count = std::min(used == 0 ? most : used, (header.pixels_at - begin) / entry);
  check(count > 0 && count <= most, "a palette of {} colours for {} bits", count, header.bits);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = begin + i * entry;  // blue first
    header.palette.push_back({file.u8(at + 2), file.u8(at + 1), file.u8(at)});
  }
}

Header read_header(const File& file, const ImageOptions& options) {
  Header header;
  header.pixels_at = file.u32(10);
  const std::int64_t info_size = file.u32(14);
  const bool known =
      info_size == 12 || info_size == 40 || info_size == 52 || info_size == 56 || info_size == 108 || info_size == 124;
  require(known, ErrorKind::unsupported, "BMP with a header of {} bytes", info_size);
  std::int64_t used = 0;
  if (info_size == 12) {
    header.width = file.u16(18);
    header.height = file.u16(20);
    header.bits = file.u16(24);
  } else {
    header.width = static_cast<std::int32_t>(file.u32(18));
    header.height = static_cast<std::int32_t>(file.u32(22));
    header.bits = file.u16(28);
    header.compression = file.u32(30);
    used = file.u32(46);
    header.top_down = header.height < 0;
    if (header.top_down) header.height = -header.height;
  }
  check_pixels(header.width, header.height, options, kMostBytesAPixel);
  const std::int64_t bits = header.bits;
  check(bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32, "{} bits a pixel", bits);
  const std::uint32_t compression = header.compression;
  require(compression <= kBitFields, ErrorKind::unsupported, "BMP with compression {}", compression);
  check(compression == kNone || (compression == kRle8 && bits == 8) || (compression == kRle4 && bits == 4) ||
            (compression == kBitFields && (bits == 16 || bits == 32)),
        "compression {} of {} bits a pixel", compression, bits);
  read_fields(file, info_size, header);
  read_palette(file, info_size, used, header);
  return header;
}

// Row of the result for row `y` of the file.
std::int64_t row_of(const Header& header, std::int64_t y) {
  return header.top_down ? y : header.height - 1 - y;
}

void put_color(const Header& header, std::uint32_t index, std::uint8_t* to) {
  check(index < header.palette.size(), "colour {} of a palette of {}", index, header.palette.size());
  std::copy(header.palette[index].begin(), header.palette[index].end(), to);
}

void read_rows(const File& file, const Header& header, Tensor& pixels) {
  const std::int64_t row_bits = header.width * header.bits, stride = (row_bits + 31) / 32 * 4;
  const std::int64_t needed = stride * (header.height - 1) + (row_bits + 7) / 8;
  check(file.size() - header.pixels_at >= needed, "{} bytes cannot hold {} x {} pixels of {} bits", file.size(),
        header.width, header.height, header.bits);
  const std::int64_t channels = pixels.shape()[2];
  for (std::int64_t y = 0; y < header.height; ++y) {
    const std::int64_t row = header.pixels_at + y * stride;
    std::uint8_t* to = pixels.mutable_data<std::uint8_t>() + row_of(header, y) * header.width * channels;
    for (std::int64_t x = 0; x < header.width; ++x, to += channels) {
      if (header.bits <= 8) {
        const std::int64_t bit = x * header.bits;
        const unsigned shift = static_cast<unsigned>(8 - header.bits - bit % 8);
        put_color(header, file.u8(row + bit / 8) >> shift & ((1u << header.bits) - 1), to);
      } else if (header.bits == 24) {
        for (std::int64_t c = 0; c < 3; ++c) to[c] = file.u8(row + 3 * x + 2 - c);
      } else {
        const std::uint32_t pixel = header.bits == 16 ? file.u16(row + 2 * x) : file.u32(row + 4 * x);
        for (std::int64_t c = 0; c < channels; ++c) to[c] = header.fields[static_cast<std::size_t>(c)].of(pixel);
      }
    }
  }
}

// Pairs of bytes: a run (count, colours), or after 0: 0 end of row, 1 end of picture, 2 a move, n ≥ 3 that many pixels
// as they are. Pixels that are passed over have colour 0.
class RunLengths {
 public:
  RunLengths(const File& file, const Header& header, Tensor& pixels)
      : file_(file), header_(header), pixels_(pixels), at_(header.pixels_at) {
    for (std::int64_t i = 0; i < pixels.elements(); i += 3)
      put_color(header, 0, pixels.mutable_data<std::uint8_t>() + i);
  }

  void read() {
    for (;;) {
      const std::uint8_t count = next(), value = next();
      if (count > 0) {
        for (int i = 0; i < count; ++i) put(half(value, i));
      } else if (value == 0) {
        x_ = 0;
        ++y_;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        x_ += next();
        y_ += next();
      } else {
        read_plain(value);
      }
    }
  }

 private:
  std::uint8_t next() { return file_.u8(at_++); }

  // Four bits name a colour in RLE4, the upper ones first.
  std::uint8_t half(std::uint8_t value, int i) const {
    if (header_.bits == 8) return value;
    return i % 2 == 0 ? value >> 4 : value & 15;
  }

  void read_plain(int count) {
    const std::int64_t begin = at_;
    std::uint8_t value = 0;
    for (int i = 0; i < count; ++i) {
      if (header_.bits == 8 || i % 2 == 0) value = next();
      put(half(value, i));
    }
    if ((at_ - begin) % 2 != 0) ++at_;
  }

  void put(std::uint8_t index) {
    check(x_ < header_.width && y_ < header_.height, "a run beyond the picture");
    put_color(header_, index, pixels_.mutable_data<std::uint8_t>() + (row_of(header_, y_) * header_.width + x_++) * 3);
  }

  const File& file_;
  const Header& header_;
  Tensor& pixels_;
  std::int64_t at_, x_ = 0, y_ = 0;
};

}  // namespace

Tensor read_bmp(Bytes bytes, const ImageOptions& options) {
  const File file(bytes);
  const Header header = read_header(file, options);
  Tensor pixels(DType::u8, {header.height, header.width, header.fields[3].mask != 0 ? 4 : 3});
  if (header.compression == kRle8 || header.compression == kRle4) RunLengths(file, header, pixels).read();
  else read_rows(file, header, pixels);
  return pixels;
}

}  // namespace tessera::io
