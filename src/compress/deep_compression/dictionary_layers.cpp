#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compress/deep_compression/dictionary_learning.h"
#include "cost/work.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/core/node_operands.h"
#include "tessera/dictionary.h"
#include "train/net/layer_weights.h"

namespace tessera {
namespace {

using train::LayerWeight;

// The graph with 1 in place of the inputs' open dimensions.
ir::Graph of_one_sample(ir::Graph graph) {
  for (const ir::ValueId id : graph.inputs()) {
    ir::ValueType& type = graph.value(id).type;
    if (!type.is_tensor() || !type.dims) continue;
    for (ir::Dim& dim : *type.dims) {
      if (!dim.is_known()) dim = 1;
    }
  }
  ops::infer_graph(graph);
  return graph;
}

double multiply_adds(const ir::Graph& sized, const ir::Node& node) {
  if (!cost::is_product(node.op)) return 0;
  const ops::NodeOperands operands(sized, node);
  return operands.are_concrete(node) ? ops::cost_of(operands.view(node)).operations / 2 : 0;
}

double multiply_adds(const ir::Graph& sized) {
  double sum = 0;
  for (const ir::NodeId id : sized.order()) sum += multiply_adds(sized, sized.node(id));
  return sum;
}

class Converter {
 public:
  Converter(const ir::Graph& graph, const DictionaryOptions& options)
      : options_(options), graph_(graph), sized_(of_one_sample(graph)) {}

  ir::Graph run(DictionaryReport& report) {
    const std::vector<LayerWeight> weights = chosen_weights();
    for (const ir::NodeId id : graph_.order()) {
      if (graph_.node(id).op != "Conv") continue;
      const auto found = std::ranges::find(weights, graph_.node(id).inputs[1], &LayerWeight::value);
      if (found != weights.end()) report.layers.push_back(convert(id, *found));
    }
    const bool any =
        std::ranges::any_of(report.layers, [](const DictionaryLayer& layer) { return layer.kept.empty(); });
    require(any, ErrorKind::invalid_argument, "no convolution gains by a dictionary: {}", reasons(report));
    report.multiply_adds_before = multiply_adds(sized_);
    graph_.remove_dead_and_compact();
    ops::infer_graph(graph_);
    report.multiply_adds_after = multiply_adds(of_one_sample(graph_));
    return std::move(graph_);
  }

 private:
  // The weights of the chosen convolutions.
  std::vector<LayerWeight> chosen_weights() const {
    std::vector<LayerWeight> weights = train::layer_weights(graph_);
    for (const std::string& pattern : options_.exclude) {
      const bool used = std::ranges::any_of(
          weights, [&](const LayerWeight& weight) { return train::matches_any({pattern}, weight.name); });
      require(used, ErrorKind::invalid_argument, "exclude: no weight of a layer has a name like '{}'", pattern);
    }
    return weights;
  }

  static std::string reasons(const DictionaryReport& report) {
    std::string text;
    for (const DictionaryLayer& layer : report.layers)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", layer.name, layer.kept);
    return text.empty() ? "the model has none with constant float32 weights" : text;
  }

  // Multiply-adds with a dictionary of that size, if no coefficient is zero.
  double with_dictionary(const ir::Node& node, const Shape& weights) const {
    const TensorPositions positions = positions_of(node);
    const double outputs = static_cast<double>(weights[0]), channels = static_cast<double>(weights[1]);
    const double taps = static_cast<double>(element_count(weights)) / (outputs * channels);
    return static_cast<double>(options_.vectors) * channels * positions.of_data +
           outputs * taps * static_cast<double>(options_.terms) * positions.of_result;
  }

  struct TensorPositions {
    double of_data = 0, of_result = 0;
  };
  TensorPositions positions_of(const ir::Node& node) const {
    const auto count = [&](ir::ValueId id) {
      const ops::TensorType type = ops::concrete_type(sized_, id);
      const std::int64_t planes = type.shape.size() < 3 ? 0 : type.shape[0] * type.shape[1];
      return planes == 0 ? 0.0 : static_cast<double>(type.elements() / planes);
    };
    return {count(node.inputs[0]), count(node.outputs[0])};
  }

  std::string reason_against(const ir::Node& node, const Tensor& weights, const DictionaryLayer& layer) const {
    if (train::matches_any(options_.exclude, layer.name)) return "excluded by a pattern";
    const auto group = node.attributes.find("group");
    if (group != node.attributes.end() && std::get<std::int64_t>(group->second) != 1)
      return "it has groups of channels";
    if (!std::ranges::all_of(weights.values<float>(), [](float value) { return std::isfinite(value); }))
      return "its weights are not finite";
    if (layer.multiply_adds_before == 0) return "the sizes of its data are not known";
    const double saved = layer.multiply_adds_before / with_dictionary(node, weights.shape());
    return saved >= options_.least_saved ? ""
                                         : fmt::format("it would take only {:.2f} times fewer multiply-adds", saved);
  }

  DictionaryLayer convert(ir::NodeId id, const LayerWeight& weight) {
    const ir::Node node = graph_.node(id);
    const Tensor weights = *graph_.constant(weight.value);
    DictionaryLayer layer{.name = weight.name, .channels = weight.shape[1], .outputs = weight.shape[0]};
    layer.taps = element_count(weight.shape) / std::max<std::int64_t>(1, layer.channels * layer.outputs);
    layer.multiply_adds_before = layer.multiply_adds_after = multiply_adds(sized_, node);
    layer.kept = reason_against(node, weights, layer);
    if (!layer.kept.empty()) return layer;
    const compress::LearnedDictionary learned = compress::learn_dictionary(weights, options_.vectors, options_.terms);
    layer.vectors = learned.vectors.shape()[0];
    layer.terms = learned.coefficients.shape()[1];
    layer.error = learned.error;
    layer.multiply_adds_after = with_dictionary(node, weights.shape());
    ir::Node converted = node;
    converted.op = "tessera::DictionaryConv";
    converted.attributes.erase("group");
    const auto part = [&](const char* name, const Tensor& value) {
      const std::string full = weight.name + name;
      const ir::ValueId known = graph_.find_value(full);  // made for another layer with the same weights
      return known.valid() ? known : graph_.add_constant(value, full);
    };
    converted.inputs = {node.inputs[0], part("/dictionary", learned.vectors), part("/indices", learned.indices),
                        part("/coefficients", learned.coefficients)};
    if (node.inputs.size() > 2) converted.inputs.push_back(node.inputs[2]);
    graph_.replace_node(id, std::move(converted));
    return layer;
  }

  const DictionaryOptions& options_;
  ir::Graph graph_;
  const ir::Graph sized_;
};

}  // namespace

Model with_dictionaries(const Model& model, const DictionaryOptions& options, DictionaryReport* report) {
  require(options.vectors >= 1 && options.terms >= 1, ErrorKind::invalid_argument,
          "a dictionary has {} vectors of which {} are combined, expected at least 1 of both", options.vectors,
          options.terms);
  DictionaryReport own;
  DictionaryReport& filled = report != nullptr ? *report : own;
  filled = {};
  return Model(std::make_shared<const ir::Graph>(Converter(model.graph(), options).run(filled)));
}

double count_multiply_adds(const Model& model) {
  return multiply_adds(of_one_sample(model.graph()));
}

}  // namespace tessera
