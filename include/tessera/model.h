// A network read from a file or built in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/export.h"
#include "tessera/model_key.h"
#include "tessera/model_limits.h"
#include "tessera/tensor.h"
#include "tessera/value_description.h"

namespace tessera {

namespace ir {
class Graph;
}
namespace io {
struct PackageOrigin;
}

// Metadata of a model file. They do not change what the model computes. A package (.tsr) has the metadata of the model
// from which it was made. Texts are the bytes of the file, not checked to be valid UTF-8.
struct ModelMetadata {
  std::string producer_name, producer_version;  // of the program that wrote the model: "pytorch", "2.6.0"
  std::string domain;                           // of the organisation: "org.example"
  std::string doc_string, graph_name;
  std::int64_t model_version = 0;              // of the model, as its makers count
  std::int64_t ir_version = 0;                 // of the ONNX format; 0 for a model that was built in memory
  std::map<std::string, std::int64_t> opsets;  // operator set versions by domain; "ai.onnx" is the default domain
  std::map<std::string, std::string>
      properties;  // the file's own (metadata_props): of an OCR model the characters that it reads, say
};

// Immutable; copies share it.
class TESSERA_API Model {
 public:
  // Reads an .onnx file, or maps a .tsr file that `tessera optimize` wrote; the first bytes say which it is. `key`
  // opens a protected .tsr file; without one default_model_key() does. Throws Error: not_found, io, invalid_model,
  // unsupported (listing everything that is not supported at once), over_budget, invalid_argument (no key, or another
  // file's).
  static Model load(const std::filesystem::path& path, const ModelLimits& limits = {},
                    const std::shared_ptr<const ModelKey>& key = nullptr);
  // Reads a model from memory, as load does from a file. With an owner the model reads weights in place and keeps the
  // owner alive, which keeps the bytes, as long as the model or a session of it lives (a .tsr file is copied unless its
  // bytes begin at a multiple of 64). Without an owner it copies what it needs before this returns. External data of an
  // .onnx file may lie below `external_data_folder`; without a folder they are refused. Throws Error as load does.
  static Model from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                          const std::optional<std::filesystem::path>& external_data_folder = std::nullopt,
                          const ModelLimits& limits = {}, const std::shared_ptr<const ModelKey>& key = nullptr);
  // For callers inside Tessera that build graphs.
  explicit Model(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<const io::PackageOrigin> package = nullptr);

  // A copy with symbolic dimensions of inputs fixed. Throws invalid_argument for a name that no input has.
  Model with_dims(const std::map<std::string, std::int64_t>& dims) const;
  // Writes an .onnx file, of the lowest opset whose operators mean what they do here. Throws Error(io).
  void save(const std::filesystem::path& path) const;

  const std::vector<ValueDescription>& inputs() const { return inputs_; }
  const std::vector<ValueDescription>& outputs() const { return outputs_; }
  // `optimise` and save() keep it, but for the operator set versions, which are those that the written .onnx needs.
  const ModelMetadata& metadata() const { return metadata_; }
  const ir::Graph& graph() const { return *graph_; }
  // The package that the model was loaded from; null if it was not loaded from a .tsr file.
  const io::PackageOrigin* package() const { return package_.get(); }

 private:
  static Model read(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                    const std::optional<std::filesystem::path>& external_data_folder, const ModelLimits& limits,
                    const ModelKey* key);

  std::shared_ptr<const ir::Graph> graph_;
  std::shared_ptr<const io::PackageOrigin> package_;
  std::vector<ValueDescription> inputs_, outputs_;
  ModelMetadata metadata_;
};

}  // namespace tessera
