#include "io/package.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/reader.h"
#include "io/onnx/tensor_reader.h"
#include "io/package/byte_stream.h"
#include "io/package/coded_weights.h"
#include "io/package/language_package.h"
#include "io/package/open_package.h"
#include "io/package/piece_list.h"
#include "io/package/section_kinds.h"
#include "ops/symbols.h"

namespace tessera::io {
namespace {

std::vector<std::string> read_texts(ByteReader& in) {
  std::vector<std::string> texts(in.count(4));
  for (std::string& text : texts) text = in.text();
  return texts;
}

std::map<std::string, std::string> read_metadata(std::span<const std::byte> bytes, const ModelLimits& limits) {
  constexpr std::int64_t kBytesOfAnEntry = 128;  // in memory, besides its characters
  ByteReader in(bytes);
  const std::uint32_t entries = in.count(8);
  const std::int64_t needed = static_cast<std::int64_t>(bytes.size()) + kBytesOfAnEntry * entries;
  require(needed <= limits.max_parsed_bytes, ErrorKind::over_budget,
          "the metadata of {} entries takes {} bytes of memory, at most {} are allowed", entries, needed,
          limits.max_parsed_bytes);
  std::map<std::string, std::string> metadata;
  for (std::uint32_t left = entries; left > 0; --left) {
    std::string key = in.text();
    require(metadata.emplace(key, in.text()).second, ErrorKind::invalid_model, "the metadata has two entries '{}'",
            shown(key));
  }
  require(in.done(), ErrorKind::invalid_model, "the metadata goes on behind its end");
  return metadata;
}

// The part [offset, offset + bytes) of a section.
std::span<const std::byte> part_of(std::span<const std::byte> section, std::uint64_t offset, std::uint64_t bytes,
                                   std::string_view name) {
  require(offset <= section.size() && bytes <= section.size() - offset, ErrorKind::invalid_model,
          "packing '{}' has {} bytes from byte {} on of a section of {}", shown(name), bytes, offset, section.size());
  return section.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

Package read_opened(const Container& container, const ModelLimits& limits);

}  // namespace

std::span<const std::byte> section_bytes(const Container& container, SectionKind kind, std::string_view name) {
  const Section* section = container.find(kind);
  require(section != nullptr, ErrorKind::invalid_model, "the package has no section of {}", name);
  return container.bytes_of(*section);
}

Container open_container(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                         const ModelKey* key) {
  Container container(bytes, owner);
  if (!container.is_protected()) return container;
  const std::shared_ptr<const ModelKey> usual = key == nullptr ? default_model_key() : nullptr;
  if (key == nullptr) key = usual.get();
  require(key != nullptr, ErrorKind::invalid_argument,
          "the model is protected, and no key is given: name it by --key-file, --key-command or --password, or in the "
          "environment by TESSERA_KEY_FILE or TESSERA_KEY_COMMAND");
  container.decode_by(key->open(container));
  return container;
}

PackageInfo read_package_info(const Container& container) {
  ByteReader in(section_bytes(container, kInfo, "information"));
  PackageInfo info;
  for (std::string* text : {&info.tessera_version, &info.device, &info.instruction_set, &info.precision})
    *text = in.text();
  info.ready = in.u32() != 0;
  info.passes = read_texts(in);
  info.without = read_texts(in);
  return info;
}

StoredPackings::StoredPackings(std::span<const std::byte> packings, std::span<const std::byte> constants,
                               std::span<const std::byte> packed, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)) {
  ByteReader in(packings);
  for (std::uint32_t left = in.count(28); left > 0; --left) {
    const std::uint64_t constant = in.u64();
    std::string name = in.text();
    require(constant < constants.size(), ErrorKind::invalid_model, "packing '{}' is of a constant at byte {} of {}",
            shown(name), constant, constants.size());
    const std::uint64_t offset = in.u64();
    const std::span<const std::byte> bytes = part_of(packed, offset, in.u64(), name);
    require(offset % kDataAlignment == 0, ErrorKind::invalid_model,
            "packing '{}' begins at byte {}, which is no multiple of {}", shown(name), offset, kDataAlignment);
    bytes_ += static_cast<std::int64_t>(bytes.size());
    packings_.insert_or_assign({constants.data() + constant, std::move(name)}, bytes);
  }
  require(in.done(), ErrorKind::invalid_model, "the list of packings goes on behind its end");
}

std::span<const std::byte> StoredPackings::find(const void* weights, std::string_view name) const {
  const auto found = packings_.find(std::pair(weights, salt_ ? hidden_name(name, *salt_) : std::string(name)));
  return found != packings_.end() ? found->second : std::span<const std::byte>();
}

std::vector<std::span<const std::byte>> StoredPackings::all_of(const void* weights) const {
  std::vector<std::span<const std::byte>> found;
  for (auto at = packings_.lower_bound(std::pair(weights, std::string()));
       at != packings_.end() && at->first.first == weights; ++at)
    found.push_back(at->second);
  return found;
}

std::string hidden_name(std::string_view name, std::uint64_t salt) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(name.data(), name.size(), salt);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::uint64_t salt_of_obfuscated(const std::string& id) {
  const std::optional<std::uint64_t> salt = ops::find_salt(id);
  if (salt) return *salt;
  const std::vector<std::string> known = ops::known_symbol_tables();
  require(
      known.empty(), ErrorKind::invalid_argument,
      "the model is obfuscated with the symbols {}, but those that were given belong to other models ({}); name the "
      "file that 'tessera protect' wrote beside this model, or the operator library made of that",
      shown(id), fmt::join(known, ", "));
  fail(ErrorKind::invalid_argument,
       "the model is obfuscated, and its symbols {} are not known: name the file that 'tessera protect' wrote beside "
       "it by --symbols or TESSERA_SYMBOLS, or the operator library made of that by --library or TESSERA_LIBRARY",
       shown(id));
}

StoredGraph stored_graph(const Container& container, const ModelLimits& limits) {
  const std::span<const std::byte> graph = section_bytes(container, kGraph, "the graph");
  const std::span<const std::byte> constants = section_bytes(container, kConstants, "constants");
  const Section& section = *container.find(kConstants);
  if (section.codec == Codec::none) return {graph, constants, container.owner()};
  // A few bytes can stand for any number of zeros.
  constexpr std::uint64_t kMostTimes = 256;
  const std::uint64_t most =
      std::max(static_cast<std::uint64_t>(limits.max_dense_bytes), section.stored_bytes * kMostTimes);
  require(section.raw_bytes <= most, ErrorKind::over_budget,
          "the coded constants would take {} bytes of memory, at most {} are allowed", section.raw_bytes, most);
  struct Held {
    Tensor decoded;
    std::shared_ptr<const void> file;
  };
  const auto held = std::make_shared<const Held>(Held{decode_weights(constants, section.raw_bytes), container.owner()});
  return {graph, bytes_of(held->decoded), held};
}

Package read_package(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const ModelLimits& limits,
                     const ModelKey* key) {
  return read_opened(open_container(bytes, owner, key), limits);
}

namespace {

Package read_opened(const Container& container, const ModelLimits& limits) {
  const bool has_pieces = container.find(kPieces) != nullptr;
  for (const Section& section : container.sections()) {
    // Codes are read whole in any case.
    const bool coded = section.codec != Codec::none;
    if (coded || (section.kind != kConstants && section.kind != kPacked)) container.verify(section);
    // Passes and shape inference read constants without asking. Packed weights are asked for piece by piece.
    if (container.decoder() != nullptr && (section.kind == kConstants || !has_pieces)) container.verify(section);
    require(!coded || section.kind == kConstants, ErrorKind::unsupported,
            "section '{}' is coded, which only constants may be", section.name);
  }
  // Packages of before have no such section: there the metadata are what the graph's own form could hold.
  std::optional<std::map<std::string, std::string>> metadata;
  if (const Section* section = container.find(kMetadata))
    metadata = read_metadata(container.bytes_of(*section), limits);
  std::optional<std::uint64_t> salt;
  if (metadata) {
    if (const auto mark = metadata->find(std::string(kObfuscatedMark)); mark != metadata->end())
      salt = salt_of_obfuscated(mark->second);
  }
  const auto [graph, constants, held] = stored_graph(container, limits);
  Package package;
  package.origin.info = read_package_info(container);
  const auto packings = std::make_shared<StoredPackings>(section_bytes(container, kPackings, "packings"), constants,
                                                         section_bytes(container, kPacked, "packed weights"), held);
  if (salt) packings->hide_names(*salt);
  package.origin.packings = packings;
  package.origin.sections = container.sections();
  package.origin.decoder = container.decoder();
  package.graph = read_package_graph(graph, constants, held, {.limits = limits});
  // Packed weights are read here, because plans of subgraphs may never ask for them.
  const bool has_subgraphs = std::ranges::any_of(
      package.graph.order(), [&](ir::NodeId id) { return !ir::subgraphs_of(package.graph.node(id)).empty(); });
  if (container.decoder() != nullptr && has_subgraphs) container.verify(*container.find(kPacked));
  // Packages of before have no such section: their weights are read when they are first touched, and not checked.
  if (const Section* pieces = container.find(kPieces)) {
    package.origin.stream = std::make_shared<WeightStream>(
        read_pieces(container.bytes_of(*pieces), constants, section_bytes(container, kPacked, "packed weights")), held,
        container.decoder());
  }
  if (metadata) package.graph.metadata = std::move(*metadata);
  for (const ir::ValueId id : package.graph.inputs()) {
    const ir::ValueInfo& input = package.graph.value(id);
    require(!package.origin.info.ready || input.type.shape().has_value(), ErrorKind::invalid_model,
            "the package is said to be ready, but input '{}' is {}", shown(input.name), ir::to_string(input.type));
  }
  if (container.decoder() != nullptr) package.graph.metadata[std::string(kProtectedMark)] = "yes";
  return package;
}

}  // namespace

void verify_package(const std::filesystem::path& path) {
  try {
    const std::shared_ptr<const MappedFile> file = MappedFile::map(InputFile::open(path));
    const Container container = open_container(file->bytes(), file, nullptr);
    for (const Section& section : container.sections()) container.verify(section);
    if (container.find(kLanguage) != nullptr) read_language_package(container);
    else read_opened(container, {});
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
