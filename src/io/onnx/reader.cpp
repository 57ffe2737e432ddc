#include "io/onnx/reader.h"

#include <google/protobuf/io/coded_stream.h>

#include "base/error.h"
#include "io/onnx/importer.h"
#include "io/onnx/wire.h"
#include "ops/infer.h"

namespace tessera::io {
namespace {

tessera_onnx::ModelProto parse_model(const std::string& structure, std::int64_t max_nesting) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(structure.data()),
                                                static_cast<int>(structure.size()));
  // A subgraph is three messages deeper than its graph: node, attribute, graph. The rest is for types and tensors.
  const auto limit = static_cast<int>(std::min<std::int64_t>(3 * max_nesting + 40, 10'000));
  stream.SetRecursionLimit(limit);
  tessera_onnx::ModelProto model;
  require(model.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage(), ErrorKind::invalid_model,
          "not an ONNX model, corrupt, or with subgraphs nested deeper than {}", max_nesting);
  return model;
}

}  // namespace

ir::Graph read_model_bytes(std::span<const std::byte> bytes, const ReadOptions& options,
                           std::shared_ptr<const void> owner, const std::optional<std::filesystem::path>& folder) {
  require(!bytes.empty(), ErrorKind::invalid_model, "the file is empty");
  const SplitModel split = split_model(bytes);
  const tessera_onnx::ModelProto model = parse_model(split.structure, options.max_nesting);
  TensorReader tensors(folder, std::move(owner));
  Importer importer(model, split.raw_data, tensors, options);
  ir::Graph graph = importer.run();
  if (options.infer && !importer.found_unsupported_operators()) ops::infer_graph(graph);
  return graph;
}

ir::Graph read_model(const std::filesystem::path& path, const ReadOptions& options) {
  try {
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    return read_model_bytes(file->bytes(), options, file, path.parent_path());
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
