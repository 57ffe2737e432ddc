// Netpbm: bitmaps (P1, P4), grey maps (P2, P5) and pixmaps (P3, P6); the first three of each are text.
// https://netpbm.sourceforge.net/doc/
#include <string>

#include "base/error.h"
#include "io/image/decoders.h"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostBytesAPixel = 7;

class Scanner {
 public:
  explicit Scanner(Bytes bytes) : bytes_(bytes) {}

  std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size() - at_); }
  std::uint8_t byte() { return std::to_integer<std::uint8_t>(bytes_[at_++]); }

  // The next decimal number, after white space and comments that run from '#' to the end of the line.
  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    int digits = 0;
    for (; left() > 0 && is_digit(peek()); ++digits) {
      require(digits < 9, ErrorKind::invalid_argument, "cannot read PNM: a number of more than 9 digits");
      value = value * 10 + (byte() - '0');
    }
    require(digits > 0, ErrorKind::invalid_argument, "cannot read PNM: a number was expected at byte {}", at_);
    return value;
  }

  // The next 0 or 1; they need no space between them.
  bool bit() {
    skip_space();
    require(left() > 0 && (peek() == '0' || peek() == '1'), ErrorKind::invalid_argument,
            "cannot read PNM: 0 or 1 was expected at byte {}", at_);
    return byte() == '1';
  }

  // The single white space between header and binary pixels.
  void end_header() {
    require(left() > 0 && is_space(peek()), ErrorKind::invalid_argument,
            "cannot read PNM: white space was expected at byte {}", at_);
    ++at_;
  }

 private:
  static bool is_digit(std::uint8_t c) { return c >= '0' && c <= '9'; }
  static bool is_space(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  std::uint8_t peek() const { return std::to_integer<std::uint8_t>(bytes_[at_]); }

  void skip_space() {
    while (left() > 0 && (is_space(peek()) || peek() == '#')) {
      if (byte() != '#') continue;
      while (left() > 0 && peek() != '\n' && peek() != '\r') ++at_;
    }
  }

  Bytes bytes_;
  std::size_t at_ = 2;  // after "P6"
};

void read_bits(Scanner& scanner, bool text, Tensor& pixels) {
  const std::int64_t width = pixels.shape()[1];
  std::uint8_t packed = 0;
  for (std::int64_t i = 0; i < pixels.elements(); ++i) {
    const std::int64_t column = i % width;  // rows begin at a byte
    if (!text && column % 8 == 0) packed = scanner.byte();
    const bool black = text ? scanner.bit() : (packed >> (7 - column % 8) & 1) != 0;
    pixels.mutable_data<std::uint8_t>()[i] = black ? 0 : 255;
  }
}

void read_samples(Scanner& scanner, bool text, std::int64_t largest, Tensor& pixels) {
  for (std::uint8_t& sample : pixels.mutable_values<std::uint8_t>()) {
    std::int64_t value = 0;
    if (text) value = scanner.number();
    else if (largest < 256) value = scanner.byte();
    else value = scanner.byte() << 8, value |= scanner.byte();
    require(value <= largest, ErrorKind::invalid_argument, "cannot read PNM: sample {} is over the maximum of {}",
            value, largest);
    sample = static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
  }
}

}  // namespace

Tensor read_pnm(Bytes bytes, const ImageOptions& options) {
  const int kind = std::to_integer<int>(bytes[1]) - '0';
  const bool text = kind <= 3, bits = kind == 1 || kind == 4, color = kind == 3 || kind == 6;
  Scanner scanner(bytes);
  const std::int64_t width = scanner.number(), height = scanner.number();
  check_pixels(width, height, options, kMostBytesAPixel);
  const std::int64_t largest = bits ? 1 : scanner.number();
  require(largest >= 1 && largest <= 65535, ErrorKind::invalid_argument,
          "cannot read PNM: a maximum of {}, expected 1 to 65535", largest);
  if (!text) scanner.end_header();

  const std::int64_t samples = width * height * (color ? 3 : 1);
  std::int64_t needed = samples;                              // text bits: a character each
  if (bits && !text) needed = (width + 7) / 8 * height;       // a bit each, rows of whole bytes
  if (!bits && text) needed = 2 * samples - 1;                // a digit each, and white space between
  if (!bits && !text && largest > 255) needed = 2 * samples;  // big-endian
  require(scanner.left() >= needed, ErrorKind::invalid_argument, "cannot read PNM: {} bytes cannot hold {} x {} pixels",
          scanner.left(), width, height);
  Tensor pixels(DType::u8, {height, width, color ? 3 : 1});
  bits ? read_bits(scanner, text, pixels) : read_samples(scanner, text, largest, pixels);
  return pixels;
}

}  // namespace tessera::io
