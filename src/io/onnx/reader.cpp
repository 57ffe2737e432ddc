#include "io/onnx/reader.h"

#include "base/error.h"
#include "base/log.h"
#include "io/onnx/importer.h"
#include "io/onnx/parsed_model.h"
#include "ops/core/infer.h"

namespace tessera::io {
namespace {

// Logs one warning per model, and which values as details.
void report(const FalseShapes& shapes) {
  if (shapes.count() == 0) return;
  const std::vector<std::string> sentences = shapes.sentences();
  const std::string others = shapes.count() > 1 ? fmt::format("; so are shapes of {} others", shapes.count() - 1) : "";
  warn("a shape that the model declares is false and ignored: {}{}", sentences[0], others);
  for (const std::string& sentence : sentences) inform("{}", sentence);
}

ir::Graph read_graph(std::span<const std::byte> bytes, const ReadOptions& options, TensorReader& tensors) {
  const ParsedModel parsed = parse_model(bytes, options.limits);
  Importer importer(parsed.model, parsed.raw_data, tensors, options);
  ir::Graph graph = importer.run();
  report(importer.false_shapes());
  if (options.declared_outputs != nullptr) *options.declared_outputs = importer.declared_outputs();
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
  ReadOptions ours = options;
  ours.declared_shapes_are_true = true;
  return read_graph(bytes, ours, tensors);
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
