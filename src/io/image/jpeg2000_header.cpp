#include "io/image/jpeg2000_header.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace tessera::io {
namespace {

enum Marker : std::uint32_t {
  kStart = 0xFF4F,
  kSize = 0xFF51,
  kCoding = 0xFF52,
  kComponentCoding = 0xFF53,
  kTile = 0xFF90,
  kData = 0xFF93,
  kEnd = 0xFFD9
};

void check(bool condition, const char* what) {
  require(condition, ErrorKind::invalid_argument, "cannot read JPEG 2000: {}", what);
}

// Big-endian numbers at checked places.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::int64_t number(std::int64_t at, int count) const {
    check(at >= 0 && at + count <= size(), "truncated header");
    std::int64_t value = 0;
    for (int i = 0; i < count; ++i)
      value = value << 8 | std::to_integer<std::int64_t>(bytes_[static_cast<std::size_t>(at + i)]);
    return value;
  }
  Reader from(std::int64_t at) const { return Reader(bytes_.subspan(static_cast<std::size_t>(at))); }

 private:
  Bytes bytes_;
};

// The contents of the first contiguous codestream box.
Reader find_codestream(const Reader& file) {
  for (std::int64_t at = 0; at + 8 <= file.size();) {
    const std::int64_t length = file.number(at, 4), type = file.number(at + 4, 4);
    const std::int64_t header = length == 1 ? 16 : 8;
    if (type == 0x6A703263) {  // "jp2c"
      check(at + header <= file.size(), "truncated header");
      return file.from(at + header);
    }
    const std::int64_t whole = length == 1 ? file.number(at + 8, 8) : length;
    check(whole >= header && whole <= file.size() - at, "a box of impossible length");
    at += whole;
  }
  fail(ErrorKind::invalid_argument, "cannot read JPEG 2000: no codestream");
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Tiling {
  std::int64_t width = 0, height = 0, columns = 0, rows = 0;
  std::int64_t components = 0;
};

Tiling read_size(const Reader& stream) {
  std::array<std::int64_t, 8> n;  // X, Y, XO, YO, XT, YT, XTO, YTO
  for (std::size_t i = 0; i < 8; ++i) n[i] = stream.number(8 + 4 * static_cast<std::int64_t>(i), 4);
  check(n[0] > n[2] && n[1] > n[3] && n[4] > 0 && n[5] > 0 && n[6] <= n[2] && n[7] <= n[3], "impossible sizes");
  Tiling tiling;
  tiling.width = n[0] - n[2];
  tiling.height = n[1] - n[3];
  tiling.columns = divide_up(n[0] - n[6], n[4]);
  tiling.rows = divide_up(n[1] - n[7], n[5]);
  tiling.components = stream.number(40, 2);
  require(tiling.components >= 1 && tiling.components <= 4, ErrorKind::unsupported, "JPEG 2000 of {} channels",
          tiling.components);
  return tiling;
}

// No less than the precincts of all components when each is coded as this COD or COC segment says; `levels_at` is the
// place of its number of decomposition levels. Tile borders may split a precinct in each direction.
double precincts(const Reader& stream, const Tiling& tiling, std::int64_t levels_at, bool has_sizes) {
  const std::int64_t levels = stream.number(levels_at, 1);
  check(levels <= 32, "more than 32 decomposition levels");
  double count = 0;
  for (std::int64_t level = 0; level <= levels; ++level) {
    const std::int64_t size = has_sizes ? stream.number(levels_at + 5 + level, 1) : 0xFF,
                       step = std::int64_t{1} << (levels - level);
    const std::int64_t across =
        divide_up(divide_up(tiling.width, step), std::int64_t{1} << (size & 15)) + tiling.columns;
    const std::int64_t down = divide_up(divide_up(tiling.height, step), std::int64_t{1} << (size >> 4)) + tiling.rows;
    count += static_cast<double>(across) * static_cast<double>(down);
  }
  return count * static_cast<double>(tiling.components);
}

// Walks the markers of the main header and of all tile parts, and holds what they announce against the length of the
// file.
void check_amounts(const Reader& stream, const Tiling& tiling) {
  double most_precincts = 0, layers = 1;
  std::optional<std::int64_t> tile_end;
  for (std::int64_t at = 2; at + 2 <= stream.size();) {
    const std::int64_t marker = stream.number(at, 2);
    if (marker == kEnd) break;
    if (marker == kData) {
      check(tile_end && *tile_end > at, "tile data outside of a tile");
      at = *tile_end;
      continue;
    }
    const std::int64_t length = stream.number(at + 2, 2);
    check(marker >= 0xFF00 && length >= 2, "a marker was expected");
    if (marker == kTile) {
      const std::int64_t part = stream.number(at + 6, 4);  // 0: up to the end
      tile_end = part == 0 ? stream.size() : at + part;
    } else if (marker == kCoding) {
      layers = std::max(layers, static_cast<double>(stream.number(at + 6, 2)));
      most_precincts = std::max(most_precincts, precincts(stream, tiling, at + 9, (stream.number(at + 4, 1) & 1) != 0));
    } else if (marker == kComponentCoding) {
      const std::int64_t coding = at + (tiling.components < 257 ? 5 : 6);
      most_precincts =
          std::max(most_precincts, precincts(stream, tiling, coding + 1, (stream.number(coding, 1) & 1) != 0));
    }
    at += 2 + length;
  }
  // A precinct count of ours is at most four times the true one.
  check(most_precincts * layers <= 4.0 * static_cast<double>(stream.size()), "too short for its precincts and layers");
}

}  // namespace

Jpeg2000Header read_jpeg2000_header(Bytes bytes) {
  const Reader file(bytes);
  Jpeg2000Header header;
  header.is_codestream = file.number(0, 2) == kStart;
  const Reader stream = header.is_codestream ? file : find_codestream(file);
  check(stream.number(0, 2) == kStart && stream.number(2, 2) == kSize, "the codestream does not begin with its size");
  const Tiling tiling = read_size(stream);
  check(
      static_cast<double>(tiling.columns) * static_cast<double>(tiling.rows) * 12 <= static_cast<double>(stream.size()),
      "too short for its tiles");
  check_amounts(stream, tiling);
  header.width = tiling.width;
  header.height = tiling.height;
  header.components = tiling.components;
  return header;
}

}  // namespace tessera::io
