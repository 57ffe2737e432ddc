#include "train/net/layer_weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "ops/convolutions/dictionary_conv.h"

namespace tessera::train {
namespace {

bool is_true(const ir::Node& node, const char* attribute) {
  const auto found = node.attributes.find(attribute);
  return found != node.attributes.end() && std::get<std::int64_t>(found->second) != 0;
}

}  // namespace

std::vector<LayerWeight> layer_weights(const ir::Graph& graph) {
  std::vector<LayerWeight> weights;
  std::set<ir::ValueId> seen;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const bool by_dictionary = node.op == "tessera::DictionaryConv";
    const bool is_conv = node.op == "Conv" || by_dictionary, is_product = node.op == "Gemm" || node.op == "MatMul";
    if (!is_conv && !is_product && node.op != "ConvTranspose") continue;
    const ir::ValueId value = node.inputs[by_dictionary ? ops::DictionaryConvInputs::coefficients : 1];
    const Tensor* constant = graph.constant(value);
    if (constant == nullptr || constant->dtype() != DType::f32 || constant->rank() < 2) continue;
    if (is_product && constant->rank() != 2) continue;
    if (!seen.insert(value).second) continue;
    const bool inputs_last = is_conv || is_true(node, "transB");
    weights.push_back({graph.value(value).name, value, constant->shape(), inputs_last ? 1 : 0, inputs_last ? 0 : 1});
  }
  return weights;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace tessera::train
