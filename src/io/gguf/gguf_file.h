// Reads GGUF files (versions 2 and 3, little-endian), in which ggml's programs and others keep language models:
// metadata and tensors by name. The files are mapped, and nothing of their weights is copied.
//
// A file is hostile until it is checked: counts, lengths and offsets are bounded before they are used, tensors lie one
// after the other without gaps (but for the padding to the alignment) and overlaps, and no name comes twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/block_format.h"
#include "io/gguf/gguf_value.h"

namespace tessera::io {

struct GgufTensor {
  std::string_view name;
  std::vector<std::int64_t> dimensions;  // fastest first, as in the file: [elements of a row, rows, …]
  base::BlockFormat format = base::BlockFormat::f32;
  std::span<const std::byte> bytes;   // of the mapping
  std::shared_ptr<const void> owner;  // keeps the bytes, and the name

  // The name of its format: "q4_k".
  std::string_view format_name() const { return base::layout_of(format).name; }
  std::int64_t elements() const;
};

class GgufFile {
 public:
  static constexpr std::int64_t kMostHeaderBytes = std::int64_t{128} << 20;
  static constexpr std::int64_t kMostTensors = 1 << 18, kMostPairs = 1 << 16, kMostShards = 1024;

  // Whether bytes begin as a GGUF file does, of whatever version and byte order.
  static bool recognises(std::span<const std::byte> bytes);

  // Opens a file, and where it is one of several ("…-00001-of-00003.gguf") all of them: the tensors are those of all,
  // and the metadata those of the first. Throws Error(not_found, io, invalid_model, unsupported, over_budget).
  static GgufFile open(const std::filesystem::path& path);
  // One file in memory that is not one of several. `owner` keeps the bytes.
  static GgufFile from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  int version() const { return version_; }
  // In the order of the file. Views of keys, texts and arrays live as long as this object.
  const std::vector<GgufValue>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // The number of files, and their bytes together.
  int shards() const { return static_cast<int>(owners_.size()); }
  std::int64_t bytes() const { return bytes_; }

  // Null when there is none.
  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;
  // Throw Error(invalid_model), which names what is missing.
  const GgufValue& value(std::string_view key) const;
  const GgufTensor& tensor(std::string_view name) const;

 private:
  void add_part(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner);
  void add_shards(const std::filesystem::path& path);
  void add_index();

  int version_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::size_t> by_key_, by_name_;  // in the order of the keys, and of the names
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace tessera::io
