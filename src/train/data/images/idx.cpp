// The IDX format of MNIST, plain or compressed by gzip.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/file.h"
#include "train/data/array_dataset.h"
#include "train/data/images/byte_pictures.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{16} << 30;

// A file that zlib reads, whether it is compressed or not.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) : name_(path.string()) {
    io::InputFile file = io::InputFile::open(path);
    // A deflated byte can stand for about 1030 bytes, and no more (zlib's technical notes).
    most_bytes_ = std::min(kMostBytes, file.bytes() * 1100 + 1024);
    file_.reset(gzdopen(file.release(), "rb"));
    require(file_ != nullptr, ErrorKind::io, "'{}' cannot be read", name_);
    gzbuffer(file_.get(), 1 << 18);
  }

  void read(void* to, std::int64_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const auto part = static_cast<unsigned>(std::min<std::int64_t>(bytes, 1 << 30));
      const int found = gzread(file_.get(), at, part);
      require(found > 0, ErrorKind::invalid_argument, "'{}' is truncated or damaged: {} more bytes were expected",
              name_, bytes);
      at += found;
      bytes -= found;
    }
  }

  bool is_at_end() {
    char byte = 0;
    return gzread(file_.get(), &byte, 1) == 0;
  }

  const std::string& name() const { return name_; }
  std::int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::int64_t most_bytes_ = 0;
};

DType idx_type(std::uint8_t code, const std::string& name) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      fail(ErrorKind::invalid_argument, "'{}' is no IDX file: its element type is {:#04x}", name, code);
  }
}

void swap_bytes(std::byte* data, std::int64_t count, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  GzipFile file(path);
  std::array<std::uint8_t, 4> magic{};
  file.read(magic.data(), 4);
  require(magic[0] == 0 && magic[1] == 0 && magic[3] > 0, ErrorKind::invalid_argument,
          "'{}' is no IDX file: it begins with {:02x} {:02x} {:02x} {:02x}", file.name(), magic[0], magic[1], magic[2],
          magic[3]);
  const DType type = idx_type(magic[2], file.name());
  Shape shape;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> size{};
    file.read(size.data(), 4);
    shape.push_back(std::int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
  }
  const std::int64_t bytes = byte_count(type, shape);
  require(bytes <= file.most_bytes(), ErrorKind::invalid_argument,
          "'{}' says that it holds {} {}, which are more bytes than the file can have", file.name(), name_of(type),
          to_string(shape));
  Tensor result(type, shape);
  file.read(result.mutable_raw(), bytes);
  require(file.is_at_end(), ErrorKind::invalid_argument, "'{}' goes on behind its {} elements", file.name(),
          result.elements());
  const std::int64_t width = result.elements() > 0 ? bytes / result.elements() : 1;
  if (std::endian::native == std::endian::little && width > 1)
    swap_bytes(static_cast<std::byte*>(result.mutable_raw()), result.elements(), width);
  return result;
}

std::unique_ptr<Dataset> open_idx_dataset(const std::filesystem::path& pictures, const std::filesystem::path& labels) {
  Tensor x = read_idx(pictures);
  const Tensor y = read_idx(labels);
  if (x.dtype() != DType::u8 || x.rank() != 3) return make_array_dataset({{"x", x}, {"y", y}}, pictures.string());
  const Shape& shape = x.shape();
  return make_byte_pictures(x.reshaped({shape[0], 1, shape[1], shape[2]}), y, pictures.string());
}

}  // namespace tessera::train
