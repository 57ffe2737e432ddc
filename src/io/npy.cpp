#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/file.h"
#include "io/npy_header.h"
#include "io/npy_raw.h"
#include "io/npy_strings.h"
#include "io/output_file.h"

namespace tessera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the writer states little endian");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::int64_t kMaxHeaderBytes = 1 << 16;
constexpr std::int64_t kMostStrings = std::int64_t{1} << 23;

using Reader = std::function<void(std::span<std::byte>)>;

void reverse_units(std::span<std::byte> bytes, std::size_t unit) {
  for (std::size_t at = 0; at + unit <= bytes.size(); at += unit)
    std::reverse(bytes.data() + at, bytes.data() + at + unit);
}

// Elements of `item` bytes from column-major to row-major order: element (i0, i1, …) stands at Σ i_k · Π_{j<k} dim_j.
void to_row_major(const std::byte* from, std::byte* to, const Shape& shape, std::size_t item) {
  std::vector<std::int64_t> strides(shape.size(), 1), index(shape.size(), 0);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) strides[axis] = strides[axis - 1] * shape[axis - 1];
  const std::int64_t count = element_count(shape);
  std::int64_t source = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<std::size_t>(i) * item, from + static_cast<std::size_t>(source) * item, item);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// The data as bytes in row-major, native order, in a tensor `type` of that shape (u8 [bytes] for strings).
Tensor read_data(const Reader& read, const NpyHeader& header, std::int64_t data_bytes) {
  const bool strings = header.dtype == DType::string;
  Tensor data = strings ? Tensor(DType::u8, {data_bytes}) : Tensor(header.dtype, header.shape);
  std::span<std::byte> bytes(static_cast<std::byte*>(data.mutable_raw()), static_cast<std::size_t>(data_bytes));
  read(bytes);
  const std::size_t item = static_cast<std::size_t>(header.item_bytes);
  if (header.big_endian && header.kind != 'S')
    reverse_units(bytes, header.kind == 'U' ? 4 : header.kind == 'c' ? item / 2 : item);
  if (!header.fortran_order || header.shape.size() < 2 || bytes.empty()) return data;
  Tensor ordered(data.dtype(), data.shape());
  to_row_major(bytes.data(), static_cast<std::byte*>(ordered.mutable_raw()), header.shape, item);
  return ordered;
}

std::string header_text(std::string_view descr, const Shape& shape) {
  std::string dimensions;
  for (std::int64_t dim : shape) dimensions += fmt::format("{}, ", dim);
  if (shape.size() > 1) dimensions.resize(dimensions.size() - 2);
  if (shape.size() == 1) dimensions.pop_back();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dimensions);
  // Magic, version and length take 10 bytes; padded so that the data begins at a multiple of 64.
  text.append(
      static_cast<std::size_t>(base::round_up(static_cast<std::int64_t>(text.size()) + 11, 64)) - text.size() - 11,
      ' ');
  text.push_back('\n');
  std::string result(kNpyMagic);
  result += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return result + text;
}

std::string descr_of(DType type) {
  if (is_raw_type(type)) return type == DType::bf16 ? "<V2" : "<V1";
  const int bytes = bits_of(type) / 8;
  const char kind = type == DType::boolean    ? 'b'
                    : is_complex(type)        ? 'c'
                    : is_float(type)          ? 'f'
                    : is_signed_integer(type) ? 'i'
                                              : 'u';
  return fmt::format("{}{}{}", bytes == 1 ? '|' : '<', kind, bytes);
}

}  // namespace

Tensor read_npy_stream(const Reader& read, std::int64_t total_bytes, DType raw) {
  std::uint8_t start[12] = {};
  const auto read_start = [&](std::size_t at, std::size_t count) {
    read(std::as_writable_bytes(std::span(start + at, count)));
  };
  require(total_bytes >= 10, ErrorKind::invalid_argument, "not an .npy array: only {} bytes", total_bytes);
  read_start(0, 10);
  require(std::memcmp(start, kNpyMagic.data(), kNpyMagic.size()) == 0, ErrorKind::invalid_argument,
          "not an .npy array: wrong first bytes");
  require(start[6] >= 1 && start[6] <= 3 && start[7] == 0, ErrorKind::unsupported,
          ".npy version {}.{} is not supported", start[6], start[7]);
  std::int64_t header_bytes = start[8] | start[9] << 8;
  std::int64_t begin = 10;
  if (start[6] > 1) {
    require(total_bytes >= 12, ErrorKind::invalid_argument, "truncated .npy header");
    read_start(10, 2);
    header_bytes |= static_cast<std::int64_t>(start[10]) << 16 | static_cast<std::int64_t>(start[11]) << 24;
    begin = 12;
  }
  require(header_bytes <= kMaxHeaderBytes, ErrorKind::over_budget, ".npy header of {} bytes; at most {} are read",
          header_bytes, kMaxHeaderBytes);
  require(header_bytes <= total_bytes - begin, ErrorKind::invalid_argument,
          "truncated .npy header: {} bytes announced, {} present", header_bytes, total_bytes - begin);
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  read(std::as_writable_bytes(std::span(text)));
  const NpyHeader header = parse_npy_header(text);
  const std::int64_t elements = element_count(header.shape);
  const std::int64_t data_bytes = base::checked_multiply(elements, header.item_bytes);
  const std::int64_t present = total_bytes - begin - header_bytes;
  require(data_bytes == present, ErrorKind::invalid_argument, ".npy shape {} needs {} bytes of data, found {}",
          to_string(header.shape), data_bytes, present);
  // Strings without characters cost nothing in the file but something here.
  require(header.item_bytes > 0 || elements == 0, ErrorKind::invalid_argument,
          ".npy array of {} elements of zero bytes", elements);
  // A string takes room in memory even where it has a byte in the file.
  require(header.dtype != DType::string || elements <= kMostStrings, ErrorKind::over_budget,
          ".npy array of {} strings; at most {} are read", elements, kMostStrings);
  const bool raw_bytes = header.kind == 'V' && header.item_bytes == 1;
  require(!raw_bytes || (is_raw_type(raw) && bits_of(raw) <= 8), ErrorKind::unsupported,
          "the .npy array holds raw bytes ('V1'), which stand for an 8-bit float or a smaller type of ml_dtypes, {}",
          raw == DType::undefined ? "and nothing says which" : fmt::format("but {} is expected", name_of(raw)));
  Tensor data = read_data(read, header, data_bytes);
  if (raw_bytes) return from_raw_bytes(data, raw);
  if (header.dtype == DType::boolean) {
    auto* bytes = static_cast<std::uint8_t*>(data.mutable_raw());
    std::transform(bytes, bytes + elements, bytes, [](std::uint8_t value) { return value != 0 ? 1 : 0; });
  }
  if (header.dtype != DType::string) return data;
  const std::byte* bytes = static_cast<const std::byte*>(data.raw());
  const std::size_t item = static_cast<std::size_t>(header.item_bytes);
  return strings_from_npy(bytes, header.shape, item, header.kind == 'U' ? 4 : 1);
}

Tensor read_npy_bytes(std::span<const std::byte> bytes, DType raw) {
  std::size_t at = 0;
  return read_npy_stream(
      [&](std::span<std::byte> to) {
        if (!to.empty()) std::memcpy(to.data(), bytes.data() + at, to.size());
        at += to.size();
      },
      static_cast<std::int64_t>(bytes.size()), raw);
}

Tensor read_npy(const std::filesystem::path& path, DType raw) {
  InputFile file = InputFile::open(path);
  try {
    return read_npy_stream([&](std::span<std::byte> to) { file.read(to); }, file.bytes(), raw);
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", path.string()));
    throw;
  }
}

NpyImage npy_image(const Tensor& tensor) {
  require(tensor.has_value(), ErrorKind::invalid_argument, "no tensor to write as .npy");
  if (tensor.dtype() != DType::string) {
    return {header_text(descr_of(tensor.dtype()), tensor.shape()), to_raw_bytes(tensor)};
  }
  Tensor data = to_code_points(tensor);
  std::string header = header_text(fmt::format("<U{}", data.shape().back()), tensor.shape());
  return {std::move(header), std::move(data)};
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const NpyImage image = npy_image(tensor);
  OutputFile file(path);
  file.write(std::as_bytes(std::span(image.header)));
  file.write(image.bytes());
  file.commit();
}

}  // namespace tessera::io
