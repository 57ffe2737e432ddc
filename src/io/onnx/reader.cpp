#include "io/onnx/reader.h"

#include <google/protobuf/io/coded_stream.h>

#include "base/error.h"
#include "io/onnx/importer.h"
#include "io/onnx/message_memory.h"
#include "io/onnx/wire.h"
#include "ops/infer.h"

namespace tessera::io {
namespace {

// A subgraph is three messages deeper than its graph: node, attribute, graph. The rest is for types and tensors.
int message_depth(const ModelLimits& limits) {
  // Whoever walks subgraphs calls himself once a level: more is for no stack.
  require(limits.max_nesting >= 0 && limits.max_nesting <= 64, ErrorKind::invalid_argument,
          "max_nesting is {}, expected 0 to 64", limits.max_nesting);
  return static_cast<int>(3 * limits.max_nesting + 40);
}

tessera_onnx::ModelProto parse_model(const std::string& structure, const ModelLimits& limits) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(structure.data()),
                                                static_cast<int>(structure.size()));
  stream.SetRecursionLimit(message_depth(limits));
  tessera_onnx::ModelProto model;
  require(model.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage(), ErrorKind::invalid_model,
          "not an ONNX model, corrupt, or with subgraphs nested deeper than {}", limits.max_nesting);
  return model;
}

ir::Graph read_graph(std::span<const std::byte> bytes, const ReadOptions& options, TensorReader& tensors) {
  require(!bytes.empty(), ErrorKind::invalid_model, "the file is empty");
  check_parsed_size(bytes, MessageKind::model, options.limits.max_parsed_bytes, message_depth(options.limits));
  const SplitModel split = split_model(bytes);
  const tessera_onnx::ModelProto model = parse_model(split.structure, options.limits);
  Importer importer(model, split.raw_data, tensors, options);
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
