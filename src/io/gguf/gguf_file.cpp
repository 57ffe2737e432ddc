#include "io/gguf/gguf_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/numbers/checked.h"
#include "io/gguf/gguf_cursor.h"
#include "io/gguf/gguf_tensor_types.h"
#include "io/onnx/mapped_file.h"

namespace tessera::io {
namespace {

constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
constexpr std::int64_t kUsualAlignment = 32, kMostAlignment = 1 << 20;
constexpr std::size_t kMostNameBytes = 65535;  // of keys and tensors
constexpr std::uint32_t kMostRank = 4;

struct Header {
  std::uint32_t version;
  std::int64_t tensors, pairs;
};

Header read_header(GgufCursor& cursor) {
  cursor.skip(sizeof(kMagic));
  const auto version = cursor.number<std::uint32_t>();
  require(version != __builtin_bswap32(2) && version != __builtin_bswap32(3), ErrorKind::unsupported,
          "this is a big-endian GGUF file; convert it to little-endian, for example by gguf's gguf-convert-endian");
  require(version == 2 || version == 3, ErrorKind::unsupported, "GGUF version {} is not supported, expected 2 or 3",
          version);
  const auto tensors = cursor.number<std::uint64_t>(), pairs = cursor.number<std::uint64_t>();
  require(tensors <= GgufFile::kMostTensors && pairs <= GgufFile::kMostPairs, ErrorKind::over_budget,
          "the file says that it has {} tensors and {} metadata values, more than the limits of {} and {}", tensors,
          pairs, GgufFile::kMostTensors, GgufFile::kMostPairs);
  return {version, static_cast<std::int64_t>(tensors), static_cast<std::int64_t>(pairs)};
}

std::string_view read_name(GgufCursor& cursor, std::string_view what) {
  const std::string_view name = cursor.text();
  require(!name.empty() && name.size() <= kMostNameBytes, ErrorKind::invalid_model,
          "the name of a {} has {} bytes, expected 1 to {}", what, name.size(), kMostNameBytes);
  return name;
}

std::vector<GgufValue> read_metadata(GgufCursor& cursor, std::int64_t count) {
  std::vector<GgufValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string_view key = read_name(cursor, "metadata value");
    const GgufType type = cursor.type(key);
    values.emplace_back(key, type, cursor.take_value(type, key));
  }
  return values;
}

// A tensor whose bytes are not known yet, and where it says that they lie.
struct PlacedTensor {
  GgufTensor tensor;
  std::uint64_t offset;
  std::int64_t bytes;
};

PlacedTensor read_tensor(GgufCursor& cursor) {
  PlacedTensor result{};
  GgufTensor& tensor = result.tensor;
  tensor.name = read_name(cursor, "tensor");
  const auto rank = cursor.number<std::uint32_t>();
  require(rank >= 1 && rank <= kMostRank, ErrorKind::invalid_model, "tensor '{}' has {} dimensions, expected 1 to {}",
          tensor.name, rank, kMostRank);
  std::int64_t rows = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto dimension = static_cast<std::int64_t>(cursor.number<std::uint64_t>());
    require(dimension >= 0, ErrorKind::invalid_model, "a dimension of tensor '{}' is more than 2^63 - 1", tensor.name);
    tensor.dimensions.push_back(dimension);
    if (i > 0) rows = base::checked_multiply(rows, dimension);
  }
  tensor.format = gguf_block_format(cursor.number<std::uint32_t>(), tensor.name);
  base::checked_multiply(rows, tensor.dimensions[0]);
  result.bytes = base::checked_multiply(rows, base::row_bytes(tensor.format, tensor.dimensions[0]));
  result.offset = cursor.number<std::uint64_t>();
  return result;
}

// Throws Error(invalid_model) unless the tensors fill the data one after the other, padded to the alignment.
void check_places(std::vector<const PlacedTensor*> tensors, std::uint64_t alignment, std::uint64_t data_bytes) {
  std::ranges::stable_sort(tensors, {},
                           [](const PlacedTensor* tensor) { return std::pair(tensor->offset, tensor->bytes); });
  std::uint64_t expected = 0;
  for (const PlacedTensor* placed : tensors) {
    const std::string_view name = placed->tensor.name;
    require(placed->offset % alignment == 0, ErrorKind::invalid_model,
            "tensor '{}' lies at {}, which is no multiple of the alignment {}", name, placed->offset, alignment);
    require(placed->offset <= data_bytes && static_cast<std::uint64_t>(placed->bytes) <= data_bytes - placed->offset,
            ErrorKind::invalid_model,
            "the {} bytes of tensor '{}' at {} reach beyond the {} bytes of data; is the file whole?", placed->bytes,
            name, placed->offset, data_bytes);
    require(placed->offset >= expected, ErrorKind::invalid_model,
            "tensor '{}' at {} overlaps the one before it, which reaches to {}", name, placed->offset, expected);
    require(placed->offset == expected, ErrorKind::invalid_model,
            "tensor '{}' lies at {}, expected {}: there is a gap of {} bytes", name, placed->offset, expected,
            placed->offset - expected);
    const std::uint64_t end = placed->offset + static_cast<std::uint64_t>(placed->bytes);
    expected = (end + alignment - 1) / alignment * alignment;
  }
}

std::int64_t alignment_of(const std::vector<GgufValue>& metadata) {
  const auto found = std::ranges::find(metadata, "general.alignment", &GgufValue::key);
  if (found == metadata.end()) return kUsualAlignment;
  const std::int64_t alignment = found->integer();
  require(alignment >= 1 && alignment <= kMostAlignment && (alignment & (alignment - 1)) == 0, ErrorKind::invalid_model,
          "general.alignment is {}, expected a power of two up to {}", alignment, kMostAlignment);
  return alignment;
}

// The positions of named things, in the order of their names. Throws Error(invalid_model) for two of one name.
template <typename Thing, typename Name>
std::vector<std::size_t> sorted_by_name(const std::vector<Thing>& things, Name name, std::string_view what) {
  std::vector<std::size_t> order(things.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::invoke(name, things[i]); });
  for (std::size_t i = 1; i < order.size(); ++i)
    require(std::invoke(name, things[order[i - 1]]) != std::invoke(name, things[order[i]]), ErrorKind::invalid_model,
            "the file has two {} '{}'", what, std::invoke(name, things[order[i]]));
  return order;
}

template <typename Thing, typename Name>
const Thing* find_by_name(const std::vector<Thing>& things, const std::vector<std::size_t>& order, Name name,
                          std::string_view wanted) {
  const auto named = [&](std::size_t i) { return std::invoke(name, things[i]); };
  const auto found = std::ranges::lower_bound(order, wanted, {}, named);
  return found == order.end() || named(*found) != wanted ? nullptr : &things[*found];
}

// The number of a file among those of a model, by its name: "name-00002-of-00003.gguf" is number 1 of 3.
struct ShardName {
  std::string stem;
  std::int64_t number, count;

  std::string of(std::int64_t other) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other + 1, count); }
};

std::optional<std::int64_t> five_digits(std::string_view text) {
  if (text.size() != 5 || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return std::stoll(std::string(text));
}

std::optional<ShardName> shard_name(const std::string& name) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (name.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  const auto number = five_digits(tail.substr(1, 5)), count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !number || !count)
    return std::nullopt;
  return ShardName{name.substr(0, name.size() - kTail), *number - 1, *count};
}

}  // namespace

std::int64_t GgufTensor::elements() const {
  // The other dimensions of a tensor without elements may be more together than a number holds.
  if (std::ranges::find(dimensions, 0) != dimensions.end()) return 0;
  return std::accumulate(dimensions.begin(), dimensions.end(), std::int64_t{1}, std::multiplies<>());
}

bool GgufFile::recognises(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(kMagic) && std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0;
}

void GgufFile::add_part(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  require(recognises(bytes), ErrorKind::invalid_model, "this is no GGUF file: it does not begin with 'GGUF'");
  GgufCursor cursor(bytes.first(std::min(bytes.size(), static_cast<std::size_t>(kMostHeaderBytes))));
  const Header header = read_header(cursor);
  std::vector<GgufValue> metadata = read_metadata(cursor, header.pairs);
  std::vector<PlacedTensor> placed;
  for (std::int64_t i = 0; i < header.tensors; ++i) placed.push_back(read_tensor(cursor));
  const auto alignment = static_cast<std::uint64_t>(alignment_of(metadata));
  const std::uint64_t begin = (cursor.position() + alignment - 1) / alignment * alignment;
  const auto data = begin <= bytes.size() ? bytes.subspan(begin) : std::span<const std::byte>{};
  std::vector<const PlacedTensor*> order;
  for (const PlacedTensor& tensor : placed) order.push_back(&tensor);
  check_places(std::move(order), alignment, data.size());
  for (PlacedTensor& tensor : placed) {
    tensor.tensor.bytes = data.subspan(tensor.offset, static_cast<std::size_t>(tensor.bytes));
    tensor.tensor.owner = owner;
    tensors_.push_back(std::move(tensor.tensor));
  }
  if (owners_.empty()) {
    version_ = static_cast<int>(header.version);
    metadata_ = std::move(metadata);
    by_key_ = sorted_by_name(metadata_, &GgufValue::key, "metadata values");
  } else {
    const auto number = std::ranges::find(metadata, "split.no", &GgufValue::key);
    require(number != metadata.end() && number->integer() == static_cast<std::int64_t>(owners_.size()),
            ErrorKind::invalid_model, "its split.no is {}, expected {}",
            number == metadata.end() ? "absent" : std::to_string(number->integer()), owners_.size());
  }
  owners_.push_back(owner);
  bytes_ = base::checked_add(bytes_, static_cast<std::int64_t>(bytes.size()));
  require(tensors_.size() <= static_cast<std::size_t>(kMostTensors), ErrorKind::over_budget,
          "the files have more than {} tensors together", kMostTensors);
}

void GgufFile::add_index() {
  by_name_ = sorted_by_name(tensors_, &GgufTensor::name, "tensors");
}

void GgufFile::add_shards(const std::filesystem::path& path) {
  const std::optional<ShardName> name = shard_name(path.filename().string());
  const GgufValue* count = find("split.count");
  const std::int64_t shards = count == nullptr ? 1 : count->integer();
  require(shards >= 1 && shards <= kMostShards, ErrorKind::invalid_model, "split.count is {}, expected 1 to {}", shards,
          kMostShards);
  if (shards == 1) return;
  require(name.has_value() && name->count == shards && value("split.no").integer() == 0, ErrorKind::invalid_model,
          "this is a part of a model in {} files, which are found by their names; expected a name such as "
          "'model-00001-of-{:05}.gguf'",
          shards, shards);
  for (std::int64_t i = 1; i < shards; ++i) {
    const std::filesystem::path next = path.parent_path() / name->of(i);
    try {
      const auto file = MappedFile::map(InputFile::open(next));
      add_part(file->bytes(), file);
    } catch (Error& error) {
      throw error.add_context("file " + next.string());
    }
  }
  const GgufValue* total = find("split.tensors.count");
  require(total == nullptr || total->integer() == static_cast<std::int64_t>(tensors_.size()), ErrorKind::invalid_model,
          "the {} files have {} tensors, expected {} (split.tensors.count)", shards, tensors_.size(),
          total == nullptr ? 0 : total->integer());
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  return base::with_memory_errors([&] {
    // Whichever of several files is given, the first one has the metadata.
    const std::optional<ShardName> name = shard_name(path.filename().string());
    const std::filesystem::path first = name ? path.parent_path() / name->of(0) : path;
    try {
      const auto mapped = MappedFile::map(InputFile::open(first));
      GgufFile result;
      result.add_part(mapped->bytes(), mapped);
      result.add_shards(first);
      result.add_index();
      return result;
    } catch (Error& error) {
      if (error.context().empty()) error.add_context("file " + first.string());
      throw;
    }
  });
}

GgufFile GgufFile::from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  GgufFile result;
  result.add_part(bytes, owner);
  const GgufValue* count = result.find("split.count");
  require(count == nullptr || count->integer() == 1, ErrorKind::invalid_argument,
          "this is one of several files of a model, which can only be opened by their names");
  result.add_index();
  return result;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  return find_by_name(metadata_, by_key_, &GgufValue::key, key);
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  return find_by_name(tensors_, by_name_, &GgufTensor::name, name);
}

const GgufValue& GgufFile::value(std::string_view key) const {
  const GgufValue* found = find(key);
  require(found != nullptr, ErrorKind::invalid_model, "the file has no metadata value '{}'", key);
  return *found;
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  require(found != nullptr, ErrorKind::invalid_model, "the file has no tensor '{}'", name);
  return *found;
}

}  // namespace tessera::io
