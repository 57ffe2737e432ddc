#include "io/onnx/writer.h"

#include <limits>
#include <span>

#include "base/numbers/checked.h"
#include "io/onnx/aligned_model.h"
#include "io/onnx/exporter.h"
#include "io/output_file.h"
#include "io/package.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kExternalDataAlignment = 4096;

void pad_to(OutputFile& file, std::int64_t multiple) {
  static constexpr std::byte zeros[kExternalDataAlignment] = {};
  file.write(std::span(zeros, static_cast<std::size_t>(base::round_up(file.position(), multiple) - file.position())));
}

void store_outside(const Tensor& tensor, OutputFile& file, const std::string& location,
                   tessera_onnx::TensorProto& proto) {
  pad_to(file, kExternalDataAlignment);
  refer_outside(proto, location, file.position(), tensor.bytes());
  file.write({static_cast<const std::byte*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())});
}

}  // namespace

std::vector<std::byte> write_model_bytes(const ir::Graph& graph, std::optional<std::int64_t> opset) {
  refuse_protected(graph, "an ONNX model");
  refuse_obfuscated(graph, "an ONNX model");
  AlignedModel aligned;
  const FileForm form = file_form(graph, opset);
  aligned.encode(Exporter(form, [&](const Tensor& tensor, tessera_onnx::TensorProto& proto) {
                   aligned.store(tensor, proto);
                 }).run());
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(aligned.bytes()));
  for (const std::span<const std::byte> piece : aligned.pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

WrittenModel write_model(const ir::Graph& graph, const fs::path& path, const WriteOptions& options) {
  refuse_protected(graph, "an .onnx file");
  refuse_obfuscated(graph, "an .onnx file");
  try {
    const FileForm form = file_form(graph, options.opset);
    const std::string location = path.filename().string() + ".data";
    std::optional<OutputFile> data;
    AlignedModel aligned;
    auto store = [&](const Tensor& tensor, tessera_onnx::TensorProto& proto) {
      const bool outside = options.external_data_threshold && !proto.name().empty() &&
                           tensor.dtype() != DType::string && tensor.bytes() >= *options.external_data_threshold &&
                           tensor.bytes() > 0;
      if (!outside) return aligned.store(tensor, proto);
      if (!data) data.emplace(path.parent_path() / location);
      store_outside(tensor, *data, location, proto);
    };
    OutputFile model(path);
    aligned.encode(Exporter(form, store).run());
    for (const std::span<const std::byte> piece : aligned.pieces()) model.write(piece);
    const std::int64_t bytes = model.position() + (data ? data->position() : 0);
    if (data) data->commit();
    model.commit();
    return {form.versions.at(""), form.raised_by, bytes};
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
