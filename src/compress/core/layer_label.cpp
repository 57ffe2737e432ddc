#include "compress/core/layer_label.h"

#include <algorithm>

namespace tessera::compress {
namespace {

// Whether the last part of the name is a word that exporters number: "onnx::MatMul_140", "val_12", "_v_3", "77".
bool is_numbered(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t end = name.find_last_not_of(kDigits);
  if (end == std::string::npos) return true;  // also an empty name
  if (end + 1 == name.size()) return false;
  return name.starts_with("onnx::") || name.starts_with("val_") || name.starts_with("_val_") ||
         name.starts_with("_v_") || name.starts_with("constant_") || name.starts_with("t_") ||
         name.starts_with("transpose_");
}

// The module in a name ("encoder.linear1" in "encoder.linear1.bias"); "" for a numbered name, and for one without a
// module.
std::string module_of(const std::string& bias) {
  const std::size_t dot = bias.rfind('.');
  return is_numbered(bias) || dot == std::string::npos ? "" : bias.substr(0, dot);
}

// The constant vector that is added to the layer's result as its bias; an invalid id if there is none.
ir::ValueId bias_of(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses, const ir::Node& node) {
  if (node.inputs.size() > 2 && node.inputs[2].valid()) return node.inputs[2];
  for (const ir::NodeId user : uses[static_cast<std::size_t>(node.outputs[0].index)]) {
    if (graph.node(user).op != "Add") continue;
    for (const ir::ValueId input : graph.node(user).inputs) {
      const Tensor* constant = graph.constant(input);
      if (constant != nullptr && constant->rank() == 1) return input;
    }
  }
  return {};
}

}  // namespace

std::map<std::string, std::string> layer_labels(const ir::Graph& graph, const std::vector<train::LayerWeight>& layers) {
  std::map<std::string, std::string> labels;
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  for (const train::LayerWeight& layer : layers) {
    std::string& label = labels[layer.name];
    label = layer.name;
    if (!is_numbered(layer.name)) continue;
    for (const ir::NodeId id : uses[static_cast<std::size_t>(layer.value.index)]) {
      const ir::Node& node = graph.node(id);
      if (node.inputs.size() < 2 || node.inputs[1] != layer.value) continue;  // not the layer, such as an Identity
      const ir::ValueId bias = bias_of(graph, uses, node);
      const std::string module = bias.valid() ? module_of(graph.value(bias).name) : "";
      if (module.empty() && node.name.empty()) continue;
      label = module.empty() ? node.name : module;
      break;
    }
  }
  return labels;
}

}  // namespace tessera::compress
