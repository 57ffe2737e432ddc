#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/host/numeric.h"
#include "report/inspect/model_outline.h"
#include "report/inspect/tensor_statistics.h"

namespace tessera::report {
namespace {

// Constants of more elements are summarised.
constexpr std::int64_t kMostElements = 1024;

nlohmann::json finite_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value));
}

nlohmann::json statistics_json(const TensorStatistics& statistics) {
  if (!statistics.known) return nullptr;
  return {{"min", statistics.minimum},   {"max", statistics.maximum}, {"mean", statistics.mean},
          {"std", statistics.deviation}, {"zeros", statistics.zeros}, {"not_finite", statistics.not_finite}};
}

// The elements in memory order, as numbers or texts; integers stay integers.
nlohmann::json elements_json(const Tensor& tensor) {
  nlohmann::json values = nlohmann::json::array();
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) values.push_back(text);
  } else if (tensor.dtype() == DType::i64) {
    for (const std::int64_t value : tensor.values<std::int64_t>()) values.push_back(value);
  } else if (tensor.dtype() == DType::u64) {
    for (const std::uint64_t value : tensor.values<std::uint64_t>()) values.push_back(value);
  } else {
    for (const double value : backends::host::read<double>(tensor)) {
      if (is_float(tensor.dtype())) values.push_back(finite_number(value));
      else values.push_back(static_cast<std::int64_t>(value));
    }
  }
  return values;
}

nlohmann::json tensor_json(const Tensor& tensor) {
  nlohmann::json json{{"type", name_of(tensor.dtype())}, {"shape", tensor.shape()}, {"bytes", tensor.bytes()}};
  if (tensor.elements() <= kMostElements && tensor.has_data() && !is_complex(tensor.dtype()))
    json["values"] = elements_json(tensor);
  json["statistics"] = statistics_json(statistics_of(tensor));
  return json;
}

nlohmann::json open_type_json(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype == DType::undefined ? nlohmann::json(nullptr)
                                                            : nlohmann::json(ir::to_string(type));
}

class OutlineJson {
 public:
  explicit OutlineJson(const ModelOutline& model) : model_(model) {
    for (std::size_t i = 0; i < model.entries().size(); ++i) numbers_[model.entries()[i].node] = i;
  }

  nlohmann::json graph(const io::OutlineGraph& graph) const {
    nlohmann::json json{{"name", graph.name}, {"nodes", nlohmann::json::array()}, {"weights", nlohmann::json::array()}};
    if (!graph.doc_string.empty()) json["doc_string"] = graph.doc_string;
    for (const auto& [key, list] : {std::pair("inputs", &graph.inputs), std::pair("outputs", &graph.outputs)}) {
      json[key] = nlohmann::json::array();
      for (const io::OutlineValue& value : *list)
        json[key].push_back({{"name", value.name}, {"declared", open_type_json(value.type)}});
    }
    for (const io::OutlineNode& each : graph.nodes) json["nodes"].push_back(node(numbers_.at(&each), false));
    for (const io::OutlineWeight& weight : graph.weights) {
      nlohmann::json entry = tensor_json(weight.tensor);
      entry["name"] = weight.name;
      json["weights"].push_back(std::move(entry));
    }
    return json;
  }

  // With `linked`, also says where inputs come from and which nodes read outputs.
  nlohmann::json node(std::size_t number, bool linked) const {
    const auto& [node, scope] = model_.entries()[number];
    nlohmann::json json{{"number", number + 1},
                        {"op", node->op},
                        {"name", node->name},
                        {"inputs", nlohmann::json::array()},
                        {"outputs", nlohmann::json::array()}};
    if (!node->doc_string.empty()) json["doc_string"] = node->doc_string;
    json["attributes"] = nlohmann::json::object();
    for (const io::OutlineAttribute& attribute : node->attributes)
      json["attributes"][attribute.name] = std::visit(*this, attribute.value);
    for (const std::string& input : node->inputs) {
      nlohmann::json entry = value(*scope, input);
      const Tensor* constant = input.empty() ? nullptr : model_.constant(*scope, input);
      if (constant != nullptr) entry["constant"] = true;
      if (linked && constant != nullptr) entry["tensor"] = tensor_json(*constant);
      if (linked) entry["producer"] = model_.origin(*scope, input);
      json["inputs"].push_back(std::move(entry));
    }
    for (const std::string& output : node->outputs) {
      nlohmann::json entry = value(*scope, output);
      if (linked) entry["users"] = model_.users(*scope, output);
      json["outputs"].push_back(std::move(entry));
    }
    return json;
  }

  nlohmann::json operator()(std::monostate) const { return nullptr; }
  nlohmann::json operator()(float value) const { return finite_number(value); }
  nlohmann::json operator()(const Tensor& tensor) const { return tensor_json(tensor); }
  nlohmann::json operator()(const ir::ValueType& type) const { return {{"type", open_type_json(type)}}; }
  nlohmann::json operator()(const io::OutlineReference& reference) const {
    return {{"reference", reference.attribute}};
  }
  nlohmann::json operator()(const std::vector<float>& values) const { return list(values); }
  nlohmann::json operator()(const std::vector<Tensor>& tensors) const { return list(tensors); }
  nlohmann::json operator()(const std::vector<io::OutlineGraphPointer>& graphs) const {
    if (graphs.size() == 1) return {{"graph", graph(*graphs[0])}};
    nlohmann::json json = nlohmann::json::array();
    for (const io::OutlineGraphPointer& each : graphs) json.push_back({{"graph", graph(*each)}});
    return json;
  }
  template <typename T>
  nlohmann::json operator()(const T& value) const {
    return value;
  }

 private:
  template <typename T>
  nlohmann::json list(const std::vector<T>& values) const {
    nlohmann::json json = nlohmann::json::array();
    for (const T& value : values) json.push_back((*this)(value));
    return json;
  }

  nlohmann::json value(const OutlineScope& scope, const std::string& name) const {
    return {{"name", name},
            {"type", name.empty() ? nlohmann::json(nullptr) : open_type_json(model_.type_of(scope, name))}};
  }

  const ModelOutline& model_;
  std::unordered_map<const io::OutlineNode*, std::size_t> numbers_;
};

}  // namespace

nlohmann::json outline_json(const ModelOutline& model) {
  const OutlineJson to_json(model);
  nlohmann::json json = to_json.graph(model.outline().graph);
  for (const io::OutlineFunction& function : model.outline().functions) {
    nlohmann::json entry = to_json.graph(function.body);
    entry["name"] = function.name;
    entry["inputs"] = function.inputs;
    entry["outputs"] = function.outputs;
    entry["attributes"] = function.attributes;
    json["functions"].push_back(std::move(entry));
  }
  return json;
}

nlohmann::json node_json(const ModelOutline& model, const std::string& name) {
  const OutlineJson to_json(model);
  nlohmann::json list = nlohmann::json::array();
  for (const std::size_t index : model.find(name)) list.push_back(to_json.node(index, true));
  return list;
}

}  // namespace tessera::report
