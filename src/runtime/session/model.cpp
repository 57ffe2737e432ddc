#include "tessera/model.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "base/no_memory.h"
#include "io/model_format.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/writer.h"
#include "ops/core/infer.h"
#include "runtime/session/assumed_dims.h"

namespace tessera {
namespace {

ValueDescription describe(const ir::ValueInfo& info) {
  ValueDescription description{info.name, ir::to_string(info.type), DType::undefined, false, {}, {}};
  if (!info.type.is_tensor()) return description;
  description.dtype = info.type.dtype;
  description.rank_known = info.type.dims.has_value();
  if (!info.type.dims) return description;
  for (const ir::Dim& dim : *info.type.dims) {
    description.dims.push_back(dim.value());
    description.dim_names.push_back(dim.name());
  }
  return description;
}

// Collects what the readers have put into the graph's metadata, see io/onnx/reader.h.
ModelMetadata metadata_of(const ir::Graph& graph) {
  constexpr std::string_view kOpset = "opset:", kProperty = "property:";
  ModelMetadata metadata;
  metadata.graph_name = graph.name;
  for (const auto& [key, text] : graph.metadata) {
    if (key == "producer_name") metadata.producer_name = text;
    else if (key == "producer_version") metadata.producer_version = text;
    else if (key == "domain") metadata.domain = text;
    else if (key == "doc_string") metadata.doc_string = text;
    else if (key == "model_version") metadata.model_version = std::strtoll(text.c_str(), nullptr, 10);
    else if (key == "ir_version") metadata.ir_version = std::strtoll(text.c_str(), nullptr, 10);
    else if (key.starts_with(kOpset))
      metadata.opsets[key.substr(kOpset.size())] = std::strtoll(text.c_str(), nullptr, 10);
    else if (key.starts_with(kProperty)) metadata.properties[key.substr(kProperty.size())] = text;
  }
  return metadata;
}

// Names that the file gives to dimensions of which nothing is known. They are for people to read: nothing follows from
// them, since they may be false.
void add_names(ValueDescription& description, const std::vector<std::string>& names) {
  if (description.dims.size() != names.size()) return;
  ir::ValueType type = ir::ValueType::tensor(description.dtype, ir::Dims(names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string& name = description.dim_names[i];
    if (description.dims[i] < 0 && name.empty()) name = names[i];
    if (description.dims[i] >= 0) (*type.dims)[i] = description.dims[i];
    else if (!name.empty()) (*type.dims)[i] = ir::Dim::symbol(name);
  }
  if (description.rank_known) description.type = ir::to_string(type);
}

}  // namespace

Model::Model(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<const io::PackageOrigin> package)
    : graph_(std::move(graph)), package_(std::move(package)) {
  for (ir::ValueId id : graph_->inputs()) inputs_.push_back(describe(graph_->value(id)));
  for (ir::ValueId id : graph_->outputs()) outputs_.push_back(describe(graph_->value(id)));
  metadata_ = metadata_of(*graph_);
}

// `owner` keeps the bytes, which begin where their format needs it.
Model Model::read(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                  const std::optional<std::filesystem::path>& folder, const ModelLimits& limits, const ModelKey* key) {
  io::ReadFile file = io::format_of(bytes).read({bytes, owner, folder, limits, key});
  Model model(std::make_shared<const ir::Graph>(std::move(file.graph)), std::move(file.package));
  const std::vector<ir::ValueType>& declared = file.declared_outputs;
  for (std::size_t i = 0; i < declared.size(); ++i) add_names(model.outputs_[i], describe({"", declared[i]}).dim_names);
  return model;
}

Model Model::load(const std::filesystem::path& path, const ModelLimits& limits,
                  const std::shared_ptr<const ModelKey>& key) {
  try {
    return base::with_memory_errors([&] {
      const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(path));
      return read(file->bytes(), file, path.parent_path(), limits, key.get());
    });
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

Model Model::from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                        const std::optional<std::filesystem::path>& external_data_folder, const ModelLimits& limits,
                        const std::shared_ptr<const ModelKey>& key) {
  const std::size_t alignment = io::format_of(bytes).alignment;
  if (alignment == 1 || (owner != nullptr && reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0))
    return read(bytes, owner, external_data_folder, limits, key.get());
  Tensor copy(DType::u8, {static_cast<std::int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(copy.mutable_raw()));
  return read({static_cast<const std::byte*>(copy.raw()), bytes.size()}, copy.owner(), std::nullopt, limits, key.get());
}

void Model::save(const std::filesystem::path& path) const {
  io::write_model(*graph_, path);
}

Model Model::with_dims(const std::map<std::string, std::int64_t>& dims) const {
  auto graph = std::make_shared<ir::Graph>(*graph_);
  std::map<std::string, bool> used;
  std::string names;
  for (ir::ValueId id : graph->inputs()) {
    ir::ValueType& type = graph->value(id).type;
    if (!type.dims) continue;
    for (std::size_t axis = 0; axis < type.dims->size(); ++axis) {
      ir::Dim& dim = (*type.dims)[axis];
      if (dim.is_known()) continue;
      const std::string name = runtime::dim_name(graph->value(id), axis);
      if (names.find("'" + name + "'") == std::string::npos) names += (names.empty() ? "'" : ", '") + name + "'";
      const auto found = dims.find(name);
      if (found == dims.end()) continue;
      require(found->second >= 0, ErrorKind::invalid_argument, "dimension '{}' cannot be {}", found->first,
              found->second);
      used[name] = true;
      dim = found->second;
    }
  }
  for (const auto& [name, value] : dims) {
    require(used.contains(name), ErrorKind::invalid_argument,
            "no input has a dimension '{}'; symbolic dimensions are {}", name, names.empty() ? "none" : names);
  }
  ops::infer_graph(*graph);
  Model model(std::move(graph), package_);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    std::vector<std::string> names = outputs_[i].dim_names;
    for (std::string& name : names) {
      if (dims.contains(name)) name.clear();
    }
    add_names(model.outputs_[i], names);
  }
  return model;
}

}  // namespace tessera
