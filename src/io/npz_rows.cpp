#include "io/npz_rows.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "io/file.h"
#include "io/npy_header.h"

namespace tessera::io {
namespace {

using Entry = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

void read_exactly(zip_file_t* file, std::span<std::byte> to) {
  while (!to.empty()) {
    const zip_int64_t got = zip_fread(file, to.data(), to.size());
    require(got >= 0, ErrorKind::invalid_argument, "damaged data: {}", zip_file_strerror(file));
    require(got > 0, ErrorKind::invalid_argument, "the data end {} bytes early", to.size());
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

// Magic, version, length and dictionary (numpy.lib.format).
NpyHeader read_header(zip_file_t* file) {
  std::byte start[8], length[4] = {};
  read_exactly(file, start);
  require(std::memcmp(start, "\x93NUMPY", 6) == 0, ErrorKind::invalid_argument, "it is no .npy array");
  const int version = static_cast<int>(start[6]);
  require(version >= 1 && version <= 3, ErrorKind::invalid_argument, ".npy version {}, expected 1 to 3", version);
  read_exactly(file, std::span(length, version == 1 ? 2 : 4));
  std::size_t bytes = 0;
  for (int i = 3; i >= 0; --i) bytes = bytes << 8 | static_cast<std::size_t>(length[i]);
  constexpr std::size_t kMost = 65536;
  require(bytes <= kMost, ErrorKind::invalid_argument, "a header of {} bytes", bytes);
  std::string text(bytes, ' ');
  read_exactly(file, std::as_writable_bytes(std::span(text.data(), text.size())));
  return parse_npy_header(text);
}

}  // namespace

struct NpzRows::State {
  std::unique_ptr<zip_t, decltype(&zip_discard)> archive{nullptr, &zip_discard};
  std::map<std::string, Array> arrays;
  std::map<std::string, Entry> entries;

  void open(std::int64_t index) {
    const char* given = zip_get_name(archive.get(), static_cast<zip_uint64_t>(index), 0);
    require(given != nullptr, ErrorKind::invalid_argument, "entry {} has no name", index);
    std::string name(given);
    require(name.ends_with(".npy") && name.size() > 4, ErrorKind::invalid_argument, "entry '{}' is not an .npy array",
            name);
    name.resize(name.size() - 4);
    try {
      Entry entry(zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(index), 0), &zip_fclose);
      require(entry != nullptr, ErrorKind::invalid_argument, "{}", zip_strerror(archive.get()));
      const NpyHeader header = read_header(entry.get());
      require(bits_of(header.dtype) >= 8 && header.kind != 'V' && header.kind != 'c' && !header.big_endian &&
                  (!header.fortran_order || header.shape.size() < 2),
              ErrorKind::invalid_argument, "expected an array of numbers in C order and little endian");
      require(!header.shape.empty(), ErrorKind::invalid_argument,
              "a single number, expected an array whose first dimension counts samples");
      require(arrays.emplace(name, Array{header.dtype, header.shape}).second, ErrorKind::invalid_argument,
              "it stands in the archive twice");
      entries.emplace(name, std::move(entry));
    } catch (Error& error) {
      error.add_context("array '" + base::shown(name) + "'");
      throw;
    }
  }
};

NpzRows::NpzRows(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  InputFile file = InputFile::open(path);
  int code = 0;
  zip_t* opened = zip_fdopen(file.descriptor(), 0, &code);
  require(opened != nullptr, ErrorKind::invalid_argument, "'{}' is no .npz archive", path.string());
  file.release();
  state_->archive.reset(opened);
  try {
    const std::int64_t count = zip_get_num_entries(opened, 0);
    constexpr std::int64_t kMost = 4096;
    require(count <= kMost, ErrorKind::over_budget, "{} arrays, more than the limit of {}", count, kMost);
    for (std::int64_t i = 0; i < count; ++i) state_->open(i);
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

NpzRows::~NpzRows() = default;

const std::map<std::string, NpzRows::Array>& NpzRows::arrays() const {
  return state_->arrays;
}

Tensor NpzRows::read(const std::string& name, std::int64_t rows) {
  const Array& array = state_->arrays.at(name);
  Shape shape = array.shape;
  shape[0] = rows;
  Tensor tensor(array.dtype, std::move(shape));
  try {
    read_exactly(state_->entries.at(name).get(),
                 {static_cast<std::byte*>(tensor.mutable_raw()), static_cast<std::size_t>(tensor.bytes())});
  } catch (Error& error) {
    error.add_context("array '" + base::shown(name) + "'");
    throw;
  }
  return tensor;
}

void NpzRows::skip(const std::string& name, std::int64_t rows) {
  const Array& array = state_->arrays.at(name);
  Shape shape = array.shape;
  shape[0] = rows;
  auto left = static_cast<std::size_t>(element_count(shape) * bits_of(array.dtype) / 8);
  std::array<std::byte, 16384> block;
  try {
    while (left > 0) {
      const std::size_t part = std::min(left, block.size());
      read_exactly(state_->entries.at(name).get(), {block.data(), part});
      left -= part;
    }
  } catch (Error& error) {
    error.add_context("array '" + base::shown(name) + "'");
    throw;
  }
}

}  // namespace tessera::io
