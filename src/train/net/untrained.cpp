#include "train/net/untrained.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "backends/reference/reference_device.h"
#include "base/error.h"
#include "ir/constant_role.h"
#include "ops/attention/attention.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "runtime/run/evaluate.h"
#include "train/net/layer_weights.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr float kForbidding = -1e4f;

// The first operand that is a setting; all later ones are settings too.
struct Settings {
  std::string_view op;
  std::size_t first;
};
constexpr std::array<Settings, 5> kSettings = {{{"Resize", 1}, {"Clip", 1}, {"Pad", 2}, {"Dropout", 1}, {"OneHot", 2}}};

bool forbids(const Tensor& constant) {
  return constant.has_data() &&
         std::ranges::any_of(constant.values<float>(), [](float value) { return value <= kForbidding; });
}

bool reads_as_mask(const ir::Node& node, ValueId constant) {
  if (node.op == "Add" || node.op == "Where") return true;
  const auto at = static_cast<std::size_t>(std::ranges::find(node.inputs, constant) - node.inputs.begin());
  return node.op == "Attention" && (at == 3 || at == ops::kAttentionSecondMask);
}

bool reads_as_setting(const ir::Node& node, ValueId constant) {
  const auto found = std::ranges::find(kSettings, std::string_view(node.op), &Settings::op);
  if (found == kSettings.end()) return false;
  const auto at = static_cast<std::size_t>(std::ranges::find(node.inputs, constant) - node.inputs.begin());
  return at >= found->first;
}

// Whether the node may be computed before the training, if its inputs are known.
bool computes(const ir::Node& node) {
  const ops::OpDef* op = ops::find_op(node.op);
  return op != nullptr && op->deterministic && node.outputs.size() == 1 && node.outputs[0].valid() &&
         node.captures == 0 && ir::subgraphs_of(node).empty() && !node.inputs.empty();
}

bool is_known(const ir::Graph& graph, const ir::Node& node) {
  return computes(node) && std::ranges::all_of(node.inputs, [&](ValueId input) {
           const Tensor* constant = graph.constant(input);
           return !input.valid() || (constant != nullptr && constant->has_data());
         });
}

// PyTorch's exporter writes the literals of programs as Constant nodes, so that scalars among the initializers are
// parameters. Other exporters write all scalars as initializers.
bool is_scalar_parameter(const ir::Graph& graph, ValueId constant) {
  const auto producer = graph.metadata.find("producer_name");
  return producer != graph.metadata.end() && producer->second == "pytorch" &&
         !graph.value(constant).name.starts_with("onnx::");
}

// By index, whether a value serves only as a setting, possibly through nodes that join, slice or cast it.
std::vector<bool> settings_of(const ir::Graph& graph) {
  std::vector<bool> settings(graph.value_count());
  const auto uses = graph.compute_uses();
  const auto serves = [&](ValueId value) {
    const std::vector<NodeId>& readers = uses[static_cast<std::size_t>(value.index)];
    return !readers.empty() && !graph.is_output(value) && std::ranges::all_of(readers, [&](NodeId id) {
      const ir::Node& reader = graph.node(id);
      return reads_as_setting(reader, value) ||
             (computes(reader) && settings[static_cast<std::size_t>(reader.outputs[0].index)]);
    });
  };
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    for (const ValueId output : graph.node(*id).outputs) {
      if (output.valid()) settings[static_cast<std::size_t>(output.index)] = serves(output);
    }
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (const ValueId id{static_cast<std::int32_t>(i)}; graph.is_constant(id)) settings[i] = serves(id);
  }
  return settings;
}

std::vector<Value> evaluate(const ir::Node& node, std::span<const Value> inputs) {
  return runtime::evaluate_node(backends::reference_device(), node, inputs, {});
}

// The result of a Shape node, if the sizes are known.
std::optional<Tensor> shape_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Shape") return std::nullopt;
  const ir::ValueType& type = graph.value(node.inputs[0]).type;
  if (!type.is_tensor() || !type.shape()) return std::nullopt;
  const Shape shape = *type.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto end_of = [&](const char* name, std::int64_t otherwise) {
    const auto found = node.attributes.find(name);
    const std::int64_t given = found == node.attributes.end() ? otherwise : std::get<std::int64_t>(found->second);
    return std::clamp<std::int64_t>(given < 0 ? given + rank : given, 0, rank);
  };
  const std::int64_t start = end_of("start", 0), end = std::max(start, end_of("end", rank));
  const Shape part(shape.begin() + start, shape.begin() + end);
  return Tensor::from<std::int64_t>({end - start}, std::span<const std::int64_t>(part));
}

bool is_small(const ir::ValueType& type) {
  constexpr std::int64_t kMostElements = std::int64_t{4} << 20;
  const std::optional<Shape> shape = type.shape();
  return shape && element_count(*shape) <= kMostElements;
}

}  // namespace

std::vector<std::string> names_of_constants(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (const ValueId id{static_cast<std::int32_t>(i)}; graph.is_constant(id)) names.push_back(graph.value(id).name);
  }
  return names;
}

bool may_be_weight(const ir::Graph& graph, ValueId id, const WeightPatterns& patterns) {
  const Tensor* constant = graph.constant(id);
  if (constant == nullptr || !is_float(constant->dtype())) return false;
  const std::string& name = graph.value(id).name;
  if (matches_any(patterns.trained, name) || matches_any(patterns.frozen, name)) return true;
  switch (ir::role_of(graph, id)) {
    case ir::ConstantRole::parameter:
      return true;
    case ir::ConstantRole::unmarked:
      return constant->rank() > 0 || is_scalar_parameter(graph, id);
    case ir::ConstantRole::buffer:
    case ir::ConstantRole::literal:
    case ir::ConstantRole::computed:
      break;
  }
  return false;
}

WeightChoice choose_weight(const ir::Graph& graph, ValueId constant, const std::vector<NodeId>& uses,
                           const WeightPatterns& patterns) {
  const auto all = [&](bool (*reads)(const ir::Node&, ValueId)) {
    return !uses.empty() && std::ranges::all_of(uses, [&](NodeId id) { return reads(graph.node(id), constant); });
  };
  const std::string& name = graph.value(constant).name;
  const ir::ConstantRole role = ir::role_of(graph, constant);
  if (matches_any(patterns.trained, name)) return {true, "named by model.trained"};
  if (matches_any(patterns.frozen, name)) return {false, "frozen"};
  if (all(reads_as_setting)) return {false, "a setting of " + graph.node(uses[0]).op};
  if (role == ir::ConstantRole::parameter) return {true, "a parameter, as the exporter says"};
  if (role == ir::ConstantRole::buffer) return {false, "a buffer, as the exporter says"};
  if (role == ir::ConstantRole::literal) return {false, "a constant of the program, as the exporter says"};
  if (forbids(*graph.constant(constant)) && all(reads_as_mask)) return {false, "a mask"};
  if (!may_be_weight(graph, constant, patterns)) return {false, "a number"};
  // PyTorch's older exporter gives such names to folded constants.
  if (name.starts_with("onnx::")) return {true, "an initializer that the exporter computed"};
  return {true, "an initializer"};
}

ir::Graph compute_untrained(ir::Graph graph, const WeightPatterns& patterns) {
  std::vector<bool> no_weights = settings_of(graph);
  const std::vector<NodeId> order = graph.order();
  for (const NodeId id : order) {
    const ir::Node node = graph.node(id);
    if (const std::optional<Tensor> shape = shape_of(graph, node); shape && !graph.is_output(node.outputs[0])) {
      graph.become_constant(node.outputs[0], *shape);
      continue;
    }
    ops::infer_node_in_place(graph, id);
    if (!is_known(graph, node) || graph.is_output(node.outputs[0]) || !is_small(graph.value(node.outputs[0]).type))
      continue;
    const bool reads_weights = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return input.valid() && may_be_weight(graph, input, patterns) &&
             !no_weights[static_cast<std::size_t>(input.index)];
    });
    if (reads_weights) continue;
    std::vector<Value> inputs;
    inputs.reserve(node.inputs.size());
    for (const ValueId input : node.inputs)
      inputs.emplace_back(input.valid() ? Value(*graph.constant(input)) : Value());
    try {
      const std::vector<Value> result = evaluate(node, inputs);
      if (!result[0].is_tensor()) continue;
      graph.become_constant(node.outputs[0], result[0].tensor());
      if (is_float(result[0].tensor().dtype())) ir::set_role(graph, node.outputs[0], ir::ConstantRole::computed);
    } catch (const Error&) {
      // An invalid node is reported by the run.
    }
  }
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::train
