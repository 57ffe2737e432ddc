// A model prepared for a device, in one file that is mapped, not read (.tsr, docs/package.md): the graph after the
// passes, its constants, and weights packed for kernels, whose layout is opaque here.
//
// A file is hostile until checked (see package/container.h). Opening it verifies the checksums of all sections but
// those of constants and packed weights, which verify_package reads whole. Faults throw tessera::Error: invalid_model
// (truncated, corrupt), unsupported (newer format, missing operators), over_budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/package/container.h"
#include "io/package/section_decoder.h"
#include "io/package/weight_stream.h"
#include "ir/graph.h"
#include "tessera/model_key.h"
#include "tessera/model_limits.h"

namespace tessera::io {

// How the graph of a package was made.
struct PackageInfo {
  std::string tessera_version;
  std::string device;                // for which the passes prepared the graph
  std::string instruction_set;       // of the machine where they ran: "avx512+vnni+bf16"
  std::string precision;             // in which float layers multiply: "f32", "bf16"
  std::vector<std::string> passes;   // the passes that ran, in order
  std::vector<std::string> without;  // the passes that were switched off
  bool ready = false;                // all shapes are numbers, and nothing is left for the passes to do
};

// Weights that a kernel has packed. `name` states everything that their layout depends on (see backends::WeightStore).
struct Packing {
  Tensor weights;
  std::string name;
  std::span<const std::byte> bytes;
};

// Weights that the first run of the model reads: a constant of the graph, or a packing, given by the begin of its
// bytes.
struct FirstUse {
  Tensor constant;
  const std::byte* packing = nullptr;  // null: the constant itself
  PieceUse use = PieceUse::whole;
};

struct WrittenPackage {
  std::int64_t file_bytes = 0;
  std::int64_t packings = 0, packed_bytes = 0;
};

// Writes to a temporary name and renames. Packings of tensors that are not constants of the graph are left out. The
// weights in `first_uses` are stored in that order, before everything else of their section. Throws Error(io,
// unsupported).
//
// With `coded` the constants are coded (package/coded_weights.h): the file is small where weights are mostly zero and
// have few different values, and loading decodes them into memory. With an encoder the file is protected.
WrittenPackage write_package(const std::filesystem::path& path, const ir::Graph& graph, const PackageInfo& info,
                             const std::vector<Packing>& packings, bool coded = false,
                             const std::vector<FirstUse>& first_uses = {}, const SectionEncoder* encoder = nullptr);

// The packed weights of an open package. Immutable.
class StoredPackings {
 public:
  // `packings` is the section that lists the packings.
  StoredPackings(std::span<const std::byte> packings, std::span<const std::byte> constants,
                 std::span<const std::byte> packed, std::shared_ptr<const void> owner);

  // The packing of that name of the constant whose data begin at `weights`, 64-byte aligned; empty if there is none.
  std::span<const std::byte> find(const void* weights, std::string_view name) const;
  // From here on, names are looked up as `hidden_name` writes them.
  void hide_names(std::uint64_t salt) { salt_ = salt; }
  // All packings of that constant.
  std::vector<std::span<const std::byte>> all_of(const void* weights) const;
  std::size_t size() const { return packings_.size(); }
  std::int64_t bytes() const { return bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::map<std::pair<const void*, std::string>, std::span<const std::byte>, std::less<>> packings_;
  std::int64_t bytes_ = 0;
  std::optional<std::uint64_t> salt_;
};

// The name of a packing in the file of an obfuscated model: names of kernels would tell which operators it has. The
// salt comes from the model's symbols.
std::string hidden_name(std::string_view name, std::uint64_t salt);

// The key of the metadata of obfuscated graphs; its text is the id of the symbols that they need (ops/symbols.h). The
// file of such a graph says nothing of how it was made, and is only read where the symbols are known. Otherwise throws
// Error(invalid_argument).
inline constexpr std::string_view kObfuscatedMark = "obfuscated";
std::uint64_t salt_of_obfuscated(const std::string& id);
// Throws Error(invalid_argument) where a graph has that mark: `what` cannot hold symbols.
void refuse_obfuscated(const ir::Graph& graph, std::string_view what);

// The key of the metadata of graphs from protected packages. Such a graph is only written through an encoder.
inline constexpr std::string_view kProtectedMark = "protected";
// Throws Error(invalid_argument) where a graph has that mark: `what` would give it away.
void refuse_protected(const ir::Graph& graph, std::string_view what);

// The package that a model was loaded from.
struct PackageOrigin {
  PackageInfo info;
  std::shared_ptr<const StoredPackings> packings;
  std::shared_ptr<WeightStream> stream;  // of the weights; null: the file has no list of pieces
  std::vector<Section> sections;
  std::shared_ptr<const SectionDecoder> decoder;  // of a protected file; else null
  // Whether the file holds the graph. Otherwise it was built of the file's weights (package/language_package.h): passes
  // run on it, and weights are read and checked when kernels take them.
  bool has_graph = true;
};

struct Package {
  ir::Graph graph;
  PackageOrigin origin;
};

// Reads a package. Constants and packings view `bytes`, which `owner` keeps alive and which must start at a multiple of
// 64. A protected file is opened by `key`; null: by default_model_key(). Throws Error(invalid_argument) if there is no
// key for it.
Package read_package(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                     const ModelLimits& limits = {}, const ModelKey* key = nullptr);

// The graph of a package in the form that read_package_graph takes: an ONNX model with its large constants outside.
// Coded constants are decoded; others are the bytes of the container. `owner` keeps the bytes alive. Throws Error:
// invalid_model when the container lacks these sections, or for faults in their codes; over_budget where coded
// constants would take more than max_dense_bytes and 256 times their bytes in the file.
struct StoredGraph {
  std::span<const std::byte> graph, constants;
  std::shared_ptr<const void> owner;
};
StoredGraph stored_graph(const Container& container, const ModelLimits& limits = {});

// Opens a package and checks the checksums of all of its sections; a protected one is opened by default_model_key() and
// authenticated whole. Also throws the Errors of InputFile::open.
void verify_package(const std::filesystem::path& path);

}  // namespace tessera::io
