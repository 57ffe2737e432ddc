#include "io/safetensors/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/numbers/checked.h"
#include "io/file.h"
#include "io/onnx/mapped_file.h"
#include "io/safetensors/json_cursor.h"

namespace tessera::io {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMostRank = 64, kMostMetadata = 1 << 16, kMostMetadataBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostIndexBytes = std::int64_t{64} << 20;
constexpr const char *kUsualName = "model.safetensors", *kIndexName = "model.safetensors.index.json";

struct TypeName {
  std::string_view name;
  DType type;
};
constexpr TypeName kTypeNames[] = {{"F64", DType::f64},          {"F32", DType::f32},       {"F16", DType::f16},
                                   {"BF16", DType::bf16},        {"I64", DType::i64},       {"I32", DType::i32},
                                   {"I16", DType::i16},          {"I8", DType::i8},         {"U64", DType::u64},
                                   {"U32", DType::u32},          {"U16", DType::u16},       {"U8", DType::u8},
                                   {"C64", DType::c64},          {"BOOL", DType::boolean},  {"F8_E8M0", DType::f8e8m0},
                                   {"F8_E4M3", DType::f8e4m3fn}, {"F8_E5M2", DType::f8e5m2}};

// A tensor as the header describes it; absent where the header does not.
struct HeaderEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<Shape> shape;
  std::vector<std::int64_t> offsets;
};

Shape read_shape(JsonCursor& json, const std::string& tensor) {
  Shape shape;
  json.array([&] {
    shape.push_back(json.size());
    require(shape.size() <= kMostRank, ErrorKind::invalid_model, "tensor '{}' has more than {} dimensions", tensor,
            kMostRank);
  });
  return shape;
}

HeaderEntry read_entry(JsonCursor& json, const std::string& name) {
  HeaderEntry entry{name, {}, {}, {}};
  json.object([&](const std::string& key) {
    if (key == "dtype") entry.dtype = json.string();
    else if (key == "shape") entry.shape = read_shape(json, name);
    else if (key == "data_offsets") entry.offsets = read_shape(json, name);
    else fail(ErrorKind::invalid_model, "tensor '{}' has the unknown entry '{}'", name, key);
  });
  require(entry.dtype && entry.shape && entry.offsets.size() == 2, ErrorKind::invalid_model,
          "the header's entry of tensor '{}' lacks dtype, shape or two data_offsets", name);
  return entry;
}

void read_metadata(JsonCursor& json, std::map<std::string, std::string>& metadata) {
  std::size_t bytes = 0;
  json.object([&](const std::string& key) {
    std::string text = json.string();
    bytes += key.size() + text.size();
    require(metadata.size() < kMostMetadata && bytes <= kMostMetadataBytes, ErrorKind::over_budget,
            "__metadata__ has more than {} entries or {} bytes", kMostMetadata, kMostMetadataBytes);
    metadata.emplace(key, std::move(text));
  });
}

// The tensor that an entry describes, with its bytes in `data`.
SafetensorsTensor make_tensor(HeaderEntry entry, std::span<const std::byte> data,
                              const std::shared_ptr<const void>& owner) {
  const auto* type = std::ranges::find(kTypeNames, std::string_view(*entry.dtype), &TypeName::name);
  require(type != std::end(kTypeNames), ErrorKind::unsupported,
          "tensor '{}' has the element type '{}', which is not supported", entry.name, *entry.dtype);
  const std::int64_t begin = entry.offsets[0], end = entry.offsets[1], wanted = byte_count(type->type, *entry.shape);
  require(begin <= end && end <= static_cast<std::int64_t>(data.size()), ErrorKind::invalid_model,
          "the bytes of tensor '{}' lie from {} to {}, but the data have {} bytes; is the file whole?", entry.name,
          begin, end, data.size());
  require(end - begin == wanted, ErrorKind::invalid_model,
          "tensor '{}' has {} bytes, expected {} for {} elements of type {}", entry.name, end - begin, wanted,
          to_string(*entry.shape), *entry.dtype);
  return {std::move(entry.name), type->type, std::move(*entry.shape),
          data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(wanted)), owner};
}

// Throws Error(invalid_model) unless the tensors, sorted by their begins, fill the data.
void check_places(std::span<const SafetensorsTensor> tensors, std::span<const std::byte> data) {
  const std::byte* expected = data.data();
  for (const SafetensorsTensor& tensor : tensors) {
    const auto at = tensor.bytes.data() - data.data(), wanted = expected - data.data();
    require(at >= wanted, ErrorKind::invalid_model, "tensor '{}' at {} overlaps the one before it, which reaches to {}",
            tensor.name, at, wanted);
    require(at == wanted, ErrorKind::invalid_model, "tensor '{}' lies at {}, expected {}: there is a gap", tensor.name,
            at, wanted);
    expected = tensor.bytes.data() + tensor.bytes.size();
  }
  const auto used = static_cast<std::size_t>(expected - data.data());
  require(used == data.size(), ErrorKind::invalid_model, "the tensors take {} bytes, but the data have {}", used,
          data.size());
}

std::string_view header_of(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  require(bytes.size() >= kLengthBytes, ErrorKind::invalid_model,
          "the file has {} bytes, which is no whole safetensors file", bytes.size());
  std::memcpy(&length, bytes.data(), sizeof(length));
  require(length <= bytes.size() - kLengthBytes, ErrorKind::invalid_model,
          "the header has {} bytes, but only {} follow; is the file whole?", length, bytes.size() - kLengthBytes);
  require(length <= static_cast<std::uint64_t>(SafetensorsFile::kMostHeaderBytes), ErrorKind::over_budget,
          "the header has {} bytes, more than the limit of {}", length, SafetensorsFile::kMostHeaderBytes);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

// A name that an index gives a file: it may not lead out of the index's folder.
void check_plain_name(const std::string& name) {
  require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
              name.find('\0') == std::string::npos,
          ErrorKind::invalid_model, "the index names the file '{}', expected the name of a file in its own folder",
          name);
}

bool ends_with(const std::filesystem::path& path, std::string_view ending) {
  return path.filename().string().ends_with(ending);
}

// The file in a folder that opens its model.
std::filesystem::path file_in(const std::filesystem::path& folder) {
  for (const char* name : {kIndexName, kUsualName})
    if (is_present(folder / name)) return folder / name;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (ends_with(entry.path(), ".safetensors")) found.push_back(entry.path());
  require(found.size() == 1, found.empty() ? ErrorKind::not_found : ErrorKind::invalid_argument,
          "the folder '{}' has {} .safetensors files, expected {}, {} or a single one", folder.string(), found.size(),
          kUsualName, kIndexName);
  return found[0];
}

}  // namespace

bool SafetensorsFile::recognises(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() <= kLengthBytes) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  // A header that is too long is refused when it is read; no other format begins so.
  return bytes[kLengthBytes] == std::byte{'{'} && length >= 2 && length < (std::uint64_t{1} << 40);
}

void SafetensorsFile::add_file(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  const std::string_view header = header_of(bytes);
  const auto data = bytes.subspan(kLengthBytes + header.size());
  std::vector<SafetensorsTensor> tensors;
  JsonCursor json(header);
  json.object([&](const std::string& name) {
    if (name == "__metadata__") return read_metadata(json, metadata_);
    require(tensors_.size() + tensors.size() < kMostTensors, ErrorKind::over_budget, "there are more than {} tensors",
            kMostTensors);
    tensors.push_back(make_tensor(read_entry(json, name), data, owner));
  });
  json.end();
  std::ranges::stable_sort(
      tensors, {}, [](const SafetensorsTensor& tensor) { return std::pair(tensor.bytes.data(), tensor.bytes.size()); });
  check_places(tensors, data);
  std::ranges::move(tensors, std::back_inserter(tensors_));
  ++shards_;
  bytes_ = base::checked_add(bytes_, static_cast<std::int64_t>(bytes.size()));
}

void SafetensorsFile::add_path(const std::filesystem::path& path) {
  try {
    const auto file = MappedFile::map(InputFile::open(path));
    add_file(file->bytes(), file);
  } catch (Error& error) {
    throw error.add_context("file " + path.string());
  }
}

void SafetensorsFile::add_index(const std::filesystem::path& path) {
  std::map<std::string, std::string> file_of;
  std::set<std::string> files;
  try {
    const std::vector<std::byte> bytes = read_file(path, kMostIndexBytes);
    JsonCursor json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    json.object([&](const std::string& key) {
      if (key != "weight_map") return json.skip();
      json.object([&](const std::string& name) {
        std::string file = json.string();
        check_plain_name(file);
        require(file_of.size() < kMostTensors, ErrorKind::over_budget, "there are more than {} tensors", kMostTensors);
        files.insert(file);
        require(files.size() <= kMostShards, ErrorKind::over_budget, "there are more than {} files", kMostShards);
        file_of.emplace(name, std::move(file));
      });
    });
    json.end();
    require(!file_of.empty(), ErrorKind::invalid_model, "the index has no weight_map, or an empty one");
  } catch (Error& error) {
    throw error.add_context("file " + path.string());
  }
  for (const std::string& file : files) {
    const std::size_t before = tensors_.size();
    add_path(path.parent_path() / file);
    for (std::size_t i = before; i < tensors_.size(); ++i) {
      const auto found = file_of.find(tensors_[i].name);
      require(found != file_of.end() && found->second == file, ErrorKind::invalid_model,
              "tensor '{}' lies in '{}', but the index '{}' says {}", tensors_[i].name, file, path.string(),
              found == file_of.end() ? "nothing of it" : "it lies in '" + found->second + "'");
    }
  }
  require(tensors_.size() >= file_of.size(), ErrorKind::invalid_model,
          "the index '{}' names {} tensors, but its files have {}", path.string(), file_of.size(), tensors_.size());
}

void SafetensorsFile::sort_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  const auto name = [&](std::size_t i) { return std::string_view(tensors_[i].name); };
  std::ranges::sort(by_name_, {}, name);
  for (std::size_t i = 1; i < by_name_.size(); ++i)
    require(name(by_name_[i - 1]) != name(by_name_[i]), ErrorKind::invalid_model, "there are two tensors '{}'",
            name(by_name_[i]));
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return base::with_memory_errors([&] {
    const std::filesystem::path file = is_folder(path) ? file_in(path) : path;
    SafetensorsFile result;
    result.folder_ = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    if (ends_with(file, ".json")) result.add_index(file);
    else result.add_path(file);
    result.sort_names();
    return result;
  });
}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  SafetensorsFile result;
  result.add_file(bytes, owner);
  result.sort_names();
  return result;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto named = [&](std::size_t i) { return std::string_view(tensors_[i].name); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, named);
  return found == by_name_.end() || named(*found) != name ? nullptr : &tensors_[*found];
}

const SafetensorsTensor& SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsTensor* found = find(name);
  require(found != nullptr, ErrorKind::invalid_model, "there is no tensor '{}'", name);
  return *found;
}

}  // namespace tessera::io
