// Reads safetensors files, in which Hugging Face's libraries keep weights: tensors by name. The files are mapped, and
// nothing of their weights is copied.
//
// A file is hostile until it is checked: the header's length, numbers and nesting are bounded, tensors have exactly
// the bytes of their type and shape, fill the data without gaps and overlaps, and no name comes twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::io {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;                        // outermost dimension first
  std::span<const std::byte> bytes;   // of the mapping; they may begin at any address
  std::shared_ptr<const void> owner;  // keeps the bytes
};

class SafetensorsFile {
 public:
  static constexpr std::int64_t kMostHeaderBytes = 100'000'000;
  static constexpr std::size_t kMostTensors = 1 << 18, kMostShards = 1024;

  // Whether bytes begin as a safetensors file does.
  static bool recognises(std::span<const std::byte> bytes);

  // Opens a file, the index of several ("model.safetensors.index.json"), or a folder with either of them under its
  // usual name (model.safetensors, model.safetensors.index.json, or one file that ends in .safetensors). The files that
  // an index names must lie in its own folder. Throws Error(not_found, io, invalid_model, unsupported, over_budget).
  static SafetensorsFile open(const std::filesystem::path& path);
  // One file in memory. `owner` keeps the bytes.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  // In the order of the data, file by file.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  // The texts of "__metadata__", of all files.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The number of files, and their bytes together.
  int shards() const { return shards_; }
  std::int64_t bytes() const { return bytes_; }
  // Where config.json and tokenizer.json lie; empty for bytes in memory.
  const std::filesystem::path& folder() const { return folder_; }

  // Null when there is none.
  const SafetensorsTensor* find(std::string_view name) const;
  // Throws Error(invalid_model), which names what is missing.
  const SafetensorsTensor& tensor(std::string_view name) const;

 private:
  void add_file(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner);
  void add_path(const std::filesystem::path& path);
  void add_index(const std::filesystem::path& path);
  void sort_names();

  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::size_t> by_name_;  // in the order of the names
  std::map<std::string, std::string> metadata_;
  std::filesystem::path folder_;
  int shards_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tessera::io
