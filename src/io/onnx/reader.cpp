#include "io/onnx/reader.h"

#include "base/error.h"
#include "io/onnx/importer.h"
#include "io/onnx/parsed_model.h"
#include "ops/infer.h"

namespace tessera::io {
namespace {

ir::Graph read_graph(std::span<const std::byte> bytes, const ReadOptions& options, TensorReader& tensors) {
  const ParsedModel parsed = parse_model(bytes, options.limits);
  Importer importer(parsed.model, parsed.raw_data, tensors, options);
  ir::Graph graph = importer.run();
  if (options.infer && !importer.found_unsupported_operators()) ops::infer_graph(graph);
  return graph;
}

}  // namespace

ir::Graph read_model_bytes(std::span<const std::byte> bytes, const ReadOptions& options,
                           std::shared_ptr<const void> owner, const std::optional<std::filesystem::path>& folder) {
  TensorReader tensors(folder, std::move(owner), options.limits.max_dense_bytes);
  return read_graph(bytes, options, tensors);
}

ir::Graph read_package_graph(std::span<const std::byte> bytes, std::span<const std::byte> constants,
                             std::shared_ptr<const void> owner, const ReadOptions& options) {
  TensorReader tensors(std::nullopt, std::move(owner), options.limits.max_dense_bytes);
  tensors.read_external_from(constants);
  return read_graph(bytes, options, tensors);
}

ir::Graph read_model(const std::filesystem::path& path, const ReadOptions& options) {
  try {
    const std::shared_ptr<const MappedFile> file = MappedFile::map(InputFile::open(path));
    return read_model_bytes(file->bytes(), options, file, path.parent_path());
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
