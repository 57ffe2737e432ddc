#include "report/inspect/model_info.h"

#include <algorithm>
#include <set>

#include "backends/reference/reference_device.h"
#include "base/error.h"
#include "cost/work.h"
#include "io/package.h"
#include "ir/graph.h"
#include "passes/pipeline.h"
#include "report/inspect/model_outline.h"
#include "report/values/json_text.h"
#include "runtime/run/evaluate.h"
#include "runtime/session/assumed_dims.h"

namespace tessera::report {
namespace {

// Whether the constant is a quantised weight: a matrix or filter of small integers. Scalars and vectors of these types
// are zero points; indices and shapes have wider types.
bool is_quantised_weight(const Tensor& constant) {
  const int bits = bits_of(constant.dtype());
  return is_integer(constant.dtype()) && bits <= 8 && constant.rank() >= 2;
}

void count_nodes(const ir::Graph& graph, ModelInfo& info) {
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    ++info.operator_counts[node.op];
    ++info.nodes;
    for (const auto& [name, subgraph] : ir::subgraphs_of(node)) count_nodes(*subgraph, info);
  }
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)});
    if (constant == nullptr) continue;
    info.constant_bytes += constant->bytes();
    if (is_float(constant->dtype()) || is_quantised_weight(*constant)) info.parameters += constant->elements();
  }
  for (const ir::Variable& variable : graph.variables()) info.parameters += variable.initial.elements();
}

bool has_known_shapes(const Model& model) {
  return std::ranges::all_of(model.graph().inputs(), [&](ir::ValueId id) {
    return !model.graph().value(id).type.is_tensor() || model.graph().value(id).type.shape().has_value();
  });
}

// The graph after the passes, as it would be planned.
ir::Graph after_passes(const Model& model) {
  ir::Graph graph = model.graph();
  passes::PassContext context;
  context.evaluate = [](const ir::Node& node, std::span<const Value> inputs) {
    return runtime::evaluate_node(backends::reference_device(), node, inputs, {});
  };
  return passes::run_pipeline(std::move(graph), context);
}

nlohmann::json values_json(const std::vector<ValueDescription>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const ValueDescription& value : values) {
    nlohmann::json shape = nlohmann::json::array();
    for (std::size_t i = 0; i < value.dims.size(); ++i) {
      if (value.dims[i] >= 0) shape.push_back(value.dims[i]);
      else if (!value.dim_names[i].empty()) shape.push_back(value.dim_names[i]);
      else shape.push_back(nullptr);
    }
    list.push_back(
        {{"name", value.name}, {"type", value.type}, {"shape", value.rank_known ? shape : nlohmann::json(nullptr)}});
  }
  return list;
}

nlohmann::json package_json(const io::PackageOrigin& package) {
  nlohmann::json sections = nlohmann::json::array();
  for (const io::Section& section : package.sections)
    sections.push_back({{"name", section.name}, {"bytes", section.stored_bytes}});
  const io::PackageInfo& info = package.info;
  return {{"tessera_version", info.tessera_version},
          {"device", info.device},
          {"instruction_set", info.instruction_set},
          {"precision", info.precision},
          {"ready", info.ready},
          {"passes", info.passes},
          {"without", info.without},
          {"packings", package.packings->size()},
          {"packed_bytes", package.packings->bytes()},
          {"sections", sections}};
}

}  // namespace

ModelInfo describe_model(const Model& model) {
  ModelInfo info;
  count_nodes(model.graph(), info);
  constexpr std::string_view ignored = "ignored:";
  for (const auto& [key, count] : model.graph().metadata) {
    if (key.starts_with(ignored)) info.ignored[key.substr(ignored.size())] = count;
  }
  std::set<std::string> seen;
  for (const ValueDescription& input : model.inputs()) {
    for (const std::string& name : input.dim_names) {
      if (!name.empty() && seen.insert(name).second) info.symbols.push_back(name);
    }
  }
  try {
    runtime::AssumedDims assumed = runtime::assume_dims(model);
    info.assumed = std::move(assumed.dims);
    info.assumption = std::move(assumed.note);
    for (const cost::Work& work : cost::work_of(after_passes(assumed.model), {}, &info.nodes_without_cost)) {
      info.operations += work.cost.operations;
      info.bytes += work.bytes();
    }
  } catch (const Error& error) {
    // Not every model can run with assumed dimensions.
    if ((error.kind() != ErrorKind::invalid_model && error.kind() != ErrorKind::invalid_argument) ||
        has_known_shapes(model))
      throw;
    info.why_no_work = error.what();
  }
  return info;
}

nlohmann::json metadata_json(const ModelMetadata& metadata) {
  return {{"producer_name", metadata.producer_name},
          {"producer_version", metadata.producer_version},
          {"domain", metadata.domain},
          {"model_version", metadata.model_version},
          {"doc_string", metadata.doc_string},
          {"graph_name", metadata.graph_name},
          {"ir_version", metadata.ir_version},
          {"opsets", metadata.opsets},
          {"properties", metadata.properties}};
}

std::string model_info_json(const Model& model, const ModelInfo& info, const std::string& name,
                            const ModelOutline* outline) {
  nlohmann::json json{{"model", name},
                      {"inputs", values_json(model.inputs())},
                      {"outputs", values_json(model.outputs())},
                      {"symbols", info.symbols},
                      {"ignored", info.ignored},
                      {"operators", info.operator_counts},
                      {"nodes", info.nodes},
                      {"parameters", info.parameters},
                      {"constant_bytes", info.constant_bytes},
                      {"assumed", info.assumed},
                      {"operations", info.operations},
                      {"bytes", info.bytes}};
  if (!info.why_no_work.empty()) json["why_no_work"] = info.why_no_work;
  json["metadata"] = metadata_json(model.metadata());
  if (outline != nullptr) json["graph"] = outline_json(*outline);
  if (model.package() != nullptr) json["package"] = package_json(*model.package());
  return json_text(json, 2);
}

}  // namespace tessera::report
