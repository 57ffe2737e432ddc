// The formats of model files, one entry each. A file is recognised by its bytes, whatever its name says.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/package.h"
#include "ir/graph.h"
#include "tessera/model_limits.h"

namespace tessera::io {

struct FileToRead {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps the bytes; without one, weights are copied
  std::optional<std::filesystem::path>
      folder;  // where further files of the model may lie; without one they are refused
  ModelLimits limits;
  const ModelKey* key = nullptr;  // of a protected file; null: default_model_key()
};

struct ReadFile {
  ir::Graph graph;
  std::shared_ptr<const PackageOrigin> package;  // of a package alone
  // The types of the outputs as the file declares them, where it does: their dimensions may have names there.
  std::vector<ir::ValueType> declared_outputs;
};

struct ModelFormat {
  std::string_view name;    // as messages call it: "an ONNX model"
  std::string_view ending;  // of the names of its files: ".onnx"
  // What the begin of the bytes must be a multiple of, for weights to be used where they lie.
  std::size_t alignment = 1;
  bool (*recognises)(std::span<const std::byte> bytes);
  // Throws Error(invalid_model, unsupported, over_budget, io).
  ReadFile (*read)(const FileToRead& file);
  // Whether its files hold the weights of a language model and no graph. `read` refuses them: their graphs are built
  // for a step of generation.
  bool language_model = false;
};

// In the order in which they are asked. The last one recognises everything.
std::span<const ModelFormat> model_formats();
const ModelFormat& format_of(std::span<const std::byte> bytes);
// Whether a path leads to a language model: a GGUF or safetensors file, the index of several, a folder with either, or
// the package of one.
// Throws Error(not_found, io) when there is nothing to read.
bool is_language_model(const std::filesystem::path& path);

// Whether the path leads to a GGUF file. Throws as is_language_model does.
bool is_gguf_file(const std::filesystem::path& path);
// Whether the path leads to the package of a language model. Throws as is_language_model does.
bool is_language_package_file(const std::filesystem::path& path);
// The only GGUF file of a folder without safetensors files, or the path itself.
std::filesystem::path language_model_at(const std::filesystem::path& path);

}  // namespace tessera::io
